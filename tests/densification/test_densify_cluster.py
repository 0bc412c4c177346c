"""`poli densify --scheduler`: two dask workers write the same bytes as one process."""

import shutil
import subprocess
import sys
import time

import pytest
from test_densify_bags import bytes_of, make, run

from poli.errors import InputError, MissingExtra, PoliError
from tiny_bags import STORES

distributed = pytest.importorskip("distributed", reason="distributed is not installed: pip install 'poli[cluster]'")


@pytest.fixture(scope="module")
def address():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.mark.parametrize("kind", STORES)
def test_two_dask_workers_write_the_same_bytes(tmp_path, address, kind):
    path, _ = make(tmp_path, kind, clouds=8)
    outs = [tmp_path / name / ("d.bag" if kind == "ros1" else "d") for name in ("here", "there")]
    for out, words in zip(outs, ((), ("--scheduler", address)), strict=True):
        out.parent.mkdir()
        assert "8 of 8 scans" in run(path, out, *words)
    assert bytes_of(outs[0]) == bytes_of(outs[1])


def test_trees_on_a_cluster(tmp_path, address):
    from test_densify_trees import kitti, tree_bytes

    source = kitti(tmp_path / "kitti")
    run(source, tmp_path / "here")
    run(source, tmp_path / "there", "--scheduler", address)
    assert tree_bytes(tmp_path / "here") == tree_bytes(tmp_path / "there")


def test_errors_are_passed_on_and_missing_schedulers_are_named(tmp_path, address, monkeypatch):
    from test_densify_trees import kitti

    from poli.densification import engines
    from poli.errors import FormatError

    source = kitti(tmp_path / "kitti")
    (source / "sequences/07/velodyne/000001.bin").write_bytes(b"1234567")
    with pytest.raises(FormatError, match="7 bytes are not a multiple of 16"):
        run(source, tmp_path / "dense", "--scheduler", address)
    monkeypatch.setattr(engines, "_PATIENCE", 1)
    for wrong in ("tcp://127.0.0.1:9", "teapot://nowhere"):
        with pytest.raises(InputError, match=f"--scheduler {wrong}: no dask scheduler answers there"):
            run(source, tmp_path / "b", "--scheduler", wrong)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"poli\[cluster\]"):
        run(source, tmp_path / "b", "--scheduler", address)


def test_a_cluster_that_loses_its_workers_is_reported(monkeypatch):
    from poli.densification import engines

    monkeypatch.setattr(engines, "_PATIENCE", 2)
    monkeypatch.setenv("POLI_NUM_THREADS", "1")  # the worker sets it, and runs in this process
    options = {"processes": False, "protocol": "tcp", "dashboard_address": None, "host": "127.0.0.1"}
    with (  # noqa: PT012
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster,
        pytest.raises(PoliError, match=r"the cluster has lost all its workers; .* retry .*finished scans are kept"),
        engines.engine(scheduler=cluster.scheduler_address) as doer,
    ):
        assert doer.result(doer.submit(int, 3)) == 3
        cluster.scale(0)
        while cluster.scheduler.workers:
            time.sleep(0.1)
        doer.result(doer.submit(int, 3))


def test_a_canceled_job_is_reported(address):
    from poli.densification import engines

    lost = pytest.raises(PoliError, match="the cluster has lost its scheduler")
    with lost, engines.engine(scheduler=address) as doer:
        job = doer.submit(time.sleep, 1)
        job.cancel(force=True)
        doer.result(job)


def test_a_cluster_behind_tls(tmp_path, monkeypatch):
    """The certificates are those of dask's configuration; without them, no scheduler answers."""
    import dask
    from test_densify_trees import kitti, tree_bytes

    from poli.densification import engines

    cert, key = tmp_path / "c.pem", tmp_path / "c.key"
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=cluster"]
    subprocess.run([*command, "-out", cert, "-keyout", key], check=True, capture_output=True)
    roles = ("scheduler", "worker", "client")
    files = {f"{role}.{what}": str(file) for role in roles for what, file in (("cert", cert), ("key", key))}
    own = {f"distributed.comm.tls.{name}": value for name, value in {"ca-file": str(cert), **files}.items()}
    source = kitti(tmp_path / "kitti")
    run(source, tmp_path / "here", "--workers", 1)
    monkeypatch.setenv("POLI_NUM_THREADS", "1")  # the worker sets it, and runs in this process
    monkeypatch.setattr(engines, "_PATIENCE", 2)
    with dask.config.set({**own, "distributed.comm.require-encryption": True}):
        where = {"protocol": "tls", "processes": False, "dashboard_address": None, "host": "127.0.0.1"}
        security = distributed.Security()
        with distributed.LocalCluster(n_workers=1, threads_per_worker=1, security=security, **where) as cluster:
            assert cluster.scheduler_address.startswith("tls://")
            run(source, tmp_path / "there", "--scheduler", cluster.scheduler_address)
            assert tree_bytes(tmp_path / "here") == tree_bytes(tmp_path / "there")
            with dask.config.set(dict.fromkeys(own)), pytest.raises(InputError, match="no dask scheduler answers there"):
                run(source, tmp_path / "b", "--scheduler", cluster.scheduler_address)
