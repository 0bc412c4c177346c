"""The paper's network: equal to a slow reading of its description, and trained, saved and used like the other one."""

from dataclasses import replace

import numpy as np
import pytest

import poli
from poli.errors import FormatError, InputError
from poli.estimation.model import read_model
from poli.estimation.pointnet2 import OBJECTS, PointNet2
from tiny_training import cloud, town_log

torch = pytest.importorskip("torch")
from safetensors.torch import load_file  # noqa: E402
from torch.nn import functional  # noqa: E402

from poli.train import checkpoint as checkpoints  # noqa: E402
from poli.train.adapt import adapt  # noqa: E402
from poli.train.config import DatasetConfig, ScanConfig, StageConfig, TrainConfig, read_config  # noqa: E402
from poli.train.device import estimate  # noqa: E402
from poli.train.pointnet2 import PointNet, SampledBatch, _Largest, _Normalize, sample  # noqa: E402
from poli.train.published import import_checkpoint  # noqa: E402
from poli.train.scan_pairs import ScanSource  # noqa: E402
from poli.train.trainer import Listener, train  # noqa: E402
from tiny_pointnet2 import TINY, checkpoint, state_of  # noqa: E402

SIZES = {
    "scans": ((2048, 1024, 512, 256), (0.05, 0.1, 0.2, 0.4), (32, 64, 128, 256)),
    "objects": ((800, 400, 200), (0.08, 0.16, 0.32), (32, 32, 32)),
}


# --- The description, read slowly: one group and one point at a time, in float64.


def described(kind: str, state: dict, points: np.ndarray) -> np.ndarray:  # (N, 3) -> (N, 3, 3)
    """Return C of every point."""
    weights = {name: t.double().numpy() for name, t in state.items()}
    centered = points - points.mean(axis=0)
    unit = np.linalg.norm(centered, axis=1).max() if kind == "objects" else 1.0
    positions = [centered / unit if kind == "objects" else points / 100.0]
    features = [positions[0]]

    def normalized(x, norm):
        y = (x - weights[f"{norm}.running_mean"]) / np.sqrt(weights[f"{norm}.running_var"] + 1e-5)
        return np.maximum(y * weights[f"{norm}.weight"] + weights[f"{norm}.bias"], 0.0)

    def linear(x, layer):
        weight = weights[f"{layer}.weight"]
        return x @ weight.reshape(weight.shape[:2]).T + weights[f"{layer}.bias"]

    def shared(x, block):
        for i in range(3):
            if f"{block}.mlp_convs.{i}.weight" in weights:
                x = normalized(linear(x, f"{block}.mlp_convs.{i}"), f"{block}.mlp_bns.{i}")
        return x

    for level, (count, radius, k) in enumerate(zip(*SIZES[kind], strict=True), 1):
        below, known = positions[-1], features[-1]
        start = int(np.linalg.norm(below - below.mean(axis=0), axis=1).argmax()) if level == 1 else 0
        chosen, distance = [start], np.linalg.norm(below - below[start], axis=1)
        while len(chosen) < min(count, len(below)):
            chosen.append(int(distance.argmax()))
            distance = np.minimum(distance, np.linalg.norm(below - below[chosen[-1]], axis=1))
        pooled = []
        for center in below[chosen]:
            away = np.linalg.norm(below - center, axis=1)
            members = [int(j) for j in np.argsort(away)[:k] if away[j] <= radius]
            members += [members[0]] * (k - len(members))
            group = np.array([np.concatenate([below[j] - center, known[j]]) for j in members])
            pooled.append(shared(group, f"sa{level}").max(axis=0))
        positions.append(below[chosen])
        features.append(np.array(pooled))
    coarse = features[-1]
    for level in range(len(features) - 1, 0, -1):
        rows = []
        for place in positions[level - 1]:
            squared = ((positions[level] - place) ** 2).sum(axis=1)
            three = np.argsort(squared)[:3]
            shares = 1.0 / (squared[three] + 1e-8)
            rows.append(shares / shares.sum() @ coarse[three])
        inputs = np.array(rows) if level == 1 else np.concatenate([features[level - 1], rows], axis=1)
        coarse = shared(inputs, f"fp{level}")
    hidden = normalized(linear(coarse, "conv1"), "bn1")
    diagonal, under = np.logaddexp(0.0, linear(hidden, "final_conv_diag")), linear(hidden, "final_conv_triang")
    found = np.zeros((len(points), 3, 3))
    for i in range(len(points)):
        L = np.diag(diagonal[i])
        L[1, 0], L[2, 0], L[2, 1] = under[i]
        found[i] = unit**2 * L @ L.T
    return found


def scene(kind: str, count: int) -> np.ndarray:
    """A cloud of the size that the network is for."""
    points = cloud(3, count)
    return 7.0 * points + 2.0 if kind == "objects" else points * [40.0, 30.0, 5.0]


@pytest.mark.parametrize(("kind", "count"), [("scans", 2100), ("scans", 150), ("objects", 900), ("objects", 70)])
def test_a_checkpoint_gives_what_the_description_says(tmp_path, kind, count):
    read = import_checkpoint(checkpoint(tmp_path, kind), tmp_path / "m.safetensors")
    assert read.kind == kind
    points = scene(kind, count)
    found, expected = poli.estimate(points, read.model).covariances, described(kind, state_of(kind), points)
    size = np.trace(expected, axis1=1, axis2=2)[:, None, None]
    np.testing.assert_allclose(found / size, expected / size, atol=1e-4)
    assert np.ptp(size) > 0.1 * size.mean()  # the points differ


def test_the_calibration_is_a_factor_of_the_standard_deviation(tmp_path):
    path, points = checkpoint(tmp_path, "objects"), cloud(1, 80)
    plain, smaller = (import_checkpoint(path, tmp_path / f"{f}.safetensors", f).model for f in (1.0, 0.1))
    expected = 0.01 * poli.estimate(points, plain).covariances
    np.testing.assert_allclose(poli.estimate(points, smaller).covariances, expected, rtol=1e-5, atol=1e-6 * expected.max())


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scans")
    return import_checkpoint(checkpoint(folder, "scans"), folder / "scans.safetensors").model


def test_the_order_of_the_points_does_not_matter(scans, rng):
    points = scene("scans", 300)
    order = rng.permutation(len(points))
    found, expected = poli.estimate(points[order], scans).covariances, poli.estimate(points, scans).covariances[order]
    np.testing.assert_allclose(found, expected, atol=1e-5 * expected.max())


def test_coordinates_are_relative_to_the_sensor(scans):
    points, place = scene("scans", 100), np.array([5.0, -3.0, 1.0])
    expected = poli.estimate(points, scans).covariances
    moved = poli.estimate(points + place, scans, viewpoint=place).covariances
    np.testing.assert_allclose(moved, expected, atol=1e-5 * expected.max())
    assert np.abs(poli.estimate(points + place, scans, merged=True).covariances - expected).max() > 1e-3 * expected.max()


def test_the_device_gives_the_same(scans):
    points = scene("scans", 100)
    np.testing.assert_array_equal(estimate(points, scans, device="cpu").covariances, poli.estimate(points, scans).covariances)


def test_samples_and_odometry_take_the_model(scans):
    log = town_log()
    assert len(poli.densify(log.scans[0], model=str(scans), per_point=2, voxel=1.0, max_thickness=0)) > len(log.scans[0])
    poses = poli.odometry(log.scans[:2], model=str(scans), voxel=2.0, on_loss="restart")  # random weights do not fit the scans
    assert np.isfinite(poses).all()
    assert poses.shape == (2, 4, 4)


def test_what_it_cannot_do_is_an_error(scans, tmp_path):
    points = scene("scans", 50)
    for options in ({"curvature": True}, {"motion": 1.0}, {"k": 5}):
        with pytest.raises(InputError, match=next(iter(options))):
            poli.estimate(points, scans, **options)
    with pytest.raises(InputError, match=r"poli adapt: .* pointnet2"):
        adapt(town_log(), tmp_path, str(scans))
    with pytest.raises(InputError, match="needs at least 16"):
        poli.estimate(points[:9], scans)


def test_export_is_refused(scans, tmp_path):
    pytest.importorskip("onnxscript")
    from poli.train.export import export_onnx

    with pytest.raises(InputError, match=r"poli export: .* pointnet2"):
        export_onnx(read_model(scans), tmp_path / "out.onnx")


# --- Batch normalization, and gradients.


def test_a_weight_counts_as_so_many_rows():
    torch.manual_seed(0)
    x, gain, bias = (torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in ((9, 3), (3,), (3,)))
    weights = torch.randint(1, 5, (9,))
    rows, mean, variance = torch.repeat_interleave(x, weights, 0), torch.zeros(3).double(), torch.ones(3).double()
    expected = functional.batch_norm(rows, mean, variance, gain, bias, training=True, momentum=1.0).relu()
    found, of_mean, of_variance, count = _Normalize.apply(x, weights.double(), gain, bias)
    torch.testing.assert_close(torch.repeat_interleave(found, weights, 0), expected)
    torch.testing.assert_close(of_mean, mean)
    torch.testing.assert_close(of_variance * count / (count - 1.0), variance)
    assert torch.autograd.gradcheck(lambda *a: _Normalize.apply(a[0], weights.double(), *a[1:])[0], (x, gain, bias))


def test_the_gradient_of_the_maximum():
    x, owners = torch.rand(7, 3, dtype=torch.double, requires_grad=True), torch.tensor([0, 0, 0, 1, 2, 2, 2])
    expected = torch.stack([x[:3].amax(0), x[3], x[4:].amax(0)])
    torch.testing.assert_close(_Largest.apply(x, owners, 3), expected)
    assert torch.autograd.gradcheck(lambda x: _Largest.apply(x, owners, 3), (x,))


def test_running_statistics_become_those_of_the_batch():
    torch.manual_seed(0)
    network = PointNet(OBJECTS)
    batch = SampledBatch.of([sample(cloud(1, 900), OBJECTS)])
    with torch.no_grad():
        untrained = network.eval()(batch)
        network.train()
        for _ in range(100):
            trained = network(batch)
        before = {name: t.clone() for name, t in network.state_dict().items()}
        # The difference left is that of variances divided by the number of rows, or by one less.
        assert (network.eval()(batch) - trained).abs().mean() < 0.1 * (untrained - trained).abs().mean()
    assert all(torch.equal(before[name], t) for name, t in network.state_dict().items())  # inference changes nothing


def test_clouds_of_a_batch_do_not_mix():
    network = PointNet(OBJECTS).eval()
    clouds = [sample(s * cloud(i, n), OBJECTS) for i, (n, s) in enumerate([(40, 1.0), (900, 3.0), (60, 2.0)])]
    with torch.no_grad():
        expected = torch.cat([network(SampledBatch.of([one])) for one in clouds])
        torch.testing.assert_close(network(SampledBatch.of(clouds)), expected)


# --- Training.


def config(tmp_path, **changes):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return replace(read_config(path), **changes)


def test_training_lowers_the_loss_and_an_interrupted_run_resumes_exactly(tmp_path):
    losses = []

    class Recorder(Listener):
        def step(self, report, total):
            losses.append(report.correspondence)

    class Interrupted(Listener):
        def step(self, report, total):
            if report.step == 25:
                raise KeyboardInterrupt

    settings = config(tmp_path)
    assert TrainConfig.from_json(settings.to_json()) == settings
    model = train(settings, tmp_path / "whole", Recorder())
    assert np.mean(losses[-8:]) < np.mean(losses[:8]) - 0.5
    with pytest.raises(KeyboardInterrupt):
        train(settings, tmp_path / "again", Interrupted())
    assert not (tmp_path / "again" / "model.safetensors").exists()
    assert train(settings, tmp_path / "again").read_bytes() == model.read_bytes()
    # With `average = 0`, the model has the last weights, running statistics included.
    last = checkpoints.part(load_file(tmp_path / "whole" / "checkpoint.safetensors"), "network")
    loaded = read_model(model)
    assert loaded.architecture == settings.architecture
    assert set(last) == set(loaded.weights)
    for name, tensor in last.items():
        np.testing.assert_array_equal(loaded.weights[name], tensor.numpy())
    assert np.abs(loaded.weights["sa1.mlp_bns.0.running_mean"]).max() > 0.01
    # What is estimated is what was trained.
    network = PointNet(settings.architecture).eval()
    network.load_state_dict(last)
    points = cloud(2, 70)
    with torch.no_grad():
        L = loaded.calibration * network(SampledBatch.of([sample(points, settings.architecture)])).double().numpy()
    np.testing.assert_allclose(poli.estimate(points, model).covariances, L @ L.transpose(0, 2, 1), rtol=1e-5, atol=1e-7)
    # Another run starts from it.
    further = replace(settings, initial=str(model), shapes=StageConfig(2, 1e-9, 0.0), sizes=StageConfig())
    continued = read_model(train(further, tmp_path / "further"))
    np.testing.assert_allclose(continued.weights["conv1.weight"], loaded.weights["conv1.weight"], atol=1e-6)


def test_scans_train_it_too(tmp_path):
    architecture = PointNet2(
        centroids=(64, 32), radii=(0.05, 0.1), nearest=(8, 8), channels=((8,), (8,)), propagated=((8,), (8,)), head=8
    )
    scans = ScanConfig(datasets=(DatasetConfig("a town"),), points=128, clouds=2)
    source = ScanSource(scans, architecture, *town_log().pairs(6, 1.0))
    settings = config(tmp_path, architecture=architecture, scans=scans, shapes=StageConfig(2), sizes=StageConfig(2))
    model = read_model(train(settings, tmp_path / "run", source=source))
    assert (model.architecture, model.calibration > 0.0) == (architecture, True)


def test_curvature_is_not_trained(tmp_path):
    with pytest.raises(InputError, match=r"curvature\.steps"):
        config(tmp_path, curvature=StageConfig(2))


# --- Files that are not such checkpoints.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("sa2.mlp_convs.1.weight"), r"for scans; missing: sa2\.mlp_convs\.1\.weight$"),
        (lambda state: state.update(extra=torch.zeros(1)), "unexpected: extra"),
        (lambda state: state.update({"conv1.weight": torch.zeros(128, 64, 1)}), r"of another shape: conv1\.weight \(128, 64\)"),
        (lambda state: state["bn1.bias"].fill_(torch.nan), r"not finite: bn1\.bias"),
        (lambda state: state.clear(), "for objects; missing: .* and others"),
    ],
)
def test_a_wrong_checkpoint_names_its_tensors(tmp_path, change, message):
    state = state_of("scans")
    change(state)
    path = checkpoint(tmp_path, "scans", model_state_dict=state)
    with pytest.raises(FormatError, match=message):
        import_checkpoint(path, tmp_path / "m.safetensors")
    assert not (tmp_path / "m.safetensors").exists()


class _Code:
    ran = False

    def __reduce__(self):
        return (setattr, (_Code, "ran", True))


def test_code_in_a_checkpoint_is_not_executed(tmp_path):
    path = checkpoint(tmp_path, "objects", epoch=_Code())
    with pytest.raises(FormatError, match="more than tensors and numbers"):
        import_checkpoint(path, tmp_path / "m.safetensors")
    assert not _Code.ran


def test_other_files_and_names_are_refused(tmp_path):
    other, good, out = tmp_path / "text.pth", checkpoint(tmp_path, "objects"), tmp_path / "m.safetensors"
    other.write_text("text")
    torch.save({"state": 1}, tmp_path / "table.pth")
    for path, place, message in (
        (other, out, "not a checkpoint of torch"),
        (tmp_path / "table.pth", out, "no table 'model_state_dict'"),
        (tmp_path / "none.pth", out, "no such file"),
        (good, tmp_path / "m.bin", r"must end in \.safetensors"),
    ):
        with pytest.raises(FormatError, match=message):
            import_checkpoint(path, place)
    with pytest.raises(InputError, match="calibration is 0"):
        import_checkpoint(good, out, 0.0)
