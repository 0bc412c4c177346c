"""A cluster behind TLS: the same bytes, and no connection without a certificate on either side."""

import shutil
import subprocess

import pytest
from test_densify_trees import kitti, tree_bytes

from poli.densification import engines
from poli.errors import InputError

distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install 'poli[cluster]'")
typer = pytest.importorskip("typer.testing")


def run(*words):
    from poli.cli import app

    result = typer.CliRunner().invoke(app, ["densify", "--voxel", "0", "--model", "pca", *map(str, words)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def certificate(folder, name):
    """A key and its self-signed certificate."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    files = folder / f"{name}.pem", folder / f"{name}.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    subprocess.run([*command, "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("own"), "cluster")


def options(authority, cert, key):
    return "--tls-ca", authority, "--tls-cert", cert, "--tls-key", key


def test_a_cluster_behind_tls(tmp_path, own, monkeypatch):
    cert, key = own
    roles = {
        f"tls_{role}_{what}": str(file)
        for role in ("scheduler", "worker", "client")
        for what, file in (("cert", cert), ("key", key))
    }
    security = distributed.Security(tls_ca_file=str(cert), require_encryption=True, **roles)
    source = kitti(tmp_path / "kitti")
    run(source, tmp_path / "here", "--workers", 1)
    monkeypatch.setenv("POLI_NUM_THREADS", "1")  # the worker sets it, and runs in this process
    where = {"protocol": "tls", "processes": False, "dashboard_address": None, "host": "127.0.0.1"}
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, security=security, **where) as cluster:
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        run(source, tmp_path / "there", "--scheduler", address, *options(cert, cert, key))
        assert tree_bytes(tmp_path / "here") == tree_bytes(tmp_path / "there")
        monkeypatch.setattr(engines, "_PATIENCE", 2)
        stranger = certificate(tmp_path, "stranger")
        for words in (options(cert, *stranger), options(stranger[0], cert, key), ()):
            with pytest.raises(InputError, match="no dask scheduler answers there"):
                run(source, tmp_path / "b", "--scheduler", address, *words)


def test_the_client_receives_its_certificates(own, monkeypatch):
    seen = {}

    class Client:
        def __init__(self, address, **settings):
            seen.update(settings, address=address)
            raise OSError("seen")

    monkeypatch.setattr(distributed, "Client", Client)
    cert, key = own
    for certificates in (engines.Certificates(cert, cert, key), None):
        with pytest.raises(InputError, match="seen"), engines.engine(1, "tls://host:8786", certificates):
            pass
        found = seen["security"]
        if certificates is None:
            assert found is None  # dask's configuration applies
        else:
            assert found.require_encryption
            assert (found.tls_ca_file, found.tls_client_cert, found.tls_client_key) == (str(cert), str(cert), str(key))


def test_wrong_certificates_are_named(tmp_path, own):
    cert, key = own
    kitti(tmp_path / "kitti")
    (tmp_path / "words.pem").write_text("teapot")
    for words, message in (
        (("--scheduler", "tcp://h:1", *options(cert, cert, key)), "must begin with tls://"),
        (("--scheduler", "tls://h:1", *options(cert, tmp_path / "nix", key)), "nix: no such file"),
        (("--scheduler", "tls://h:1", *options(cert, tmp_path / "words.pem", key)), "not usable with its key"),
        (("--scheduler", "tls://h:1", "--tls-ca", cert), "belong together"),
        (options(cert, cert, key), "add --scheduler"),
    ):
        with pytest.raises(InputError, match=message):
            run(tmp_path / "kitti", tmp_path / "b", *words)
