"""Tensors on devices of Intel and Apple, with a made-up one (torch_device.py). Neither has been used for real."""

import contextlib

import pytest
import torch_device

import pccl

torch = pytest.importorskip("torch")

import pccl.torch as ptorch  # noqa: E402
from pccl import _buffers, _staged  # noqa: E402
from pccl.diloco import _arrays  # noqa: E402
from pccl.diloco._copier import DeviceCopier  # noqa: E402
from pccl.torch import _backend, _call, _devices, _layout, _staging  # noqa: E402

KINDS = ["xpu", "mps"]


@pytest.fixture(params=KINDS)
def device(request):
    replaced = [_staging, _staged, _arrays, _call, _layout, torch.mps]
    before = [dict(vars(module)) for module in replaced]
    made = torch_device.Device(_staging, request.param)
    made.kind = request.param
    yield made
    for module, content in zip(replaced, before):
        vars(module).update(content)


def within(device):
    """Gives a thread a separate stream, if the device has streams."""
    return device.stream(torch_device.Stream()) if device.kind == "xpu" else contextlib.nullcontext()


def ramp(device, count, factor):
    """Returns a tensor whose kernel has not run yet."""
    tensor = device.empty(count)
    device.current_stream().put(lambda: tensor.copy_(factor * torch.arange(count)))
    return tensor


def behind(device, tensor):
    """Returns the contents that a kernel enqueued now finds in it."""
    found = torch.zeros_like(tensor)
    device.current_stream().put(lambda: found.copy_(tensor))
    device.current_stream().synchronize()
    return found.tolist()


def test_lists_of_reductions(group, device):
    def reduce(comm, i):
        with within(device):
            tensors = [ramp(device, count, 1 + i) for count in (3, 5, 300_000)]
            operand = pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT)
            comm.all_reduce_multiple_with_retry(
                [
                    pccl.ReduceOpDescriptor.from_torch(t, t, pccl.ReduceDescriptor(t.numel(), "sum", tag, operand))
                    for tag, t in enumerate(tensors)
                ]
            )
            return [behind(device, one)[:5] for one in tensors]

    assert group(2).all(reduce) == [[[0, 3, 6], [0, 3, 6, 9, 12], [0, 3, 6, 9, 12]]] * 2


def test_one_operation(group, device):
    def gather(comm, i):
        with within(device):
            mine, whole = ramp(device, 2, 1 + comm.rank), device.empty(4)
            behind(device, mine)  # such an operation copies by torch itself, which has no made-up streams
            comm.all_gather(mine, whole)
            return whole.tolist()

    assert group(2).all(gather) == [[0, 1, 0, 2]] * 2


def test_buckets_of_gradients(group, device):
    def reduce(comm, i):
        with within(device):
            model = torch.nn.Module()
            for name in "ab":
                model.register_parameter(name, torch.nn.Parameter(device.empty(3)))
            buckets = ptorch.GradientBuckets(model)
            for parameter in model.parameters():
                parameter.grad = ramp(device, 3, 1 + i)
                behind(device, parameter.grad)
            buckets.reduce(comm, pccl.ReduceOp.SUM)
            return [behind(device, parameter.grad) for parameter in model.parameters()]

    assert group(2).all(reduce) == [[[0, 3, 6]] * 2] * 2


def test_a_copier_waits_for_training(device):
    with within(device):
        memory = ramp(device, 3, 1)
        copier = DeviceCopier([memory.device])
        copier.begin()
        copier.wait()
        assert memory.tolist() == [0, 1, 2]


class OnDevice(torch.Tensor):
    """A tensor that claims to be on a device."""

    kind = "mps"
    device = property(lambda self: torch.device(self.kind))

    def untyped_storage(self):
        return _Storage(self)


class _Storage:
    def __init__(self, tensor):
        self.device, self._bytes = tensor.device, tensor.numel() * tensor.element_size()

    def nbytes(self):
        return self._bytes


def on(kind, values):
    tensor = torch.Tensor._make_subclass(OnDevice, torch.tensor(values))
    tensor.kind = kind
    return tensor


@pytest.mark.parametrize("kind", KINDS)
def test_memory_that_only_torch_can_read(kind):
    tensor = on(kind, [1.0, 2.0])
    buffer = _buffers.of(tensor, "send")
    assert buffer.is_on_device and buffer.is_staged and buffer.dtype is pccl.DataType.FLOAT
    assert _staged.on_device(buffer) and _staging.is_on_device(tensor) and _arrays.is_on_device(tensor)
    _layout.check_device(tensor, False)
    with pytest.raises(pccl.LayoutError, match="on different devices"):
        _buffers.match_kinds(buffer, _buffers.of(torch.ones(2), "recv"), "reduce")
    for check in (lambda: _buffers.of(on("hpu", [1.0]), "send"), lambda: _layout.check_device(on("hpu", [1.0]), False)):
        with pytest.raises(ValueError, match="cuda, xpu, mps"):
            check()


@pytest.mark.parametrize("kind", KINDS)
def test_shared_state(group, kind):
    """The library synchronizes a copy on the host."""

    def synchronize(comm, i):
        tensor = on(kind, [[1.0 + i, 2.0], [3.0, 4.0]])
        state = pccl.SharedState([pccl.TensorInfo.from_buffer(tensor, "w")])
        prepared = state._prepare().infos[0]
        assert prepared.data != tensor.data_ptr() and prepared.device_type == pccl.DeviceType.CPU
        state.revision = 1 - i
        comm.sync_shared_state(state)
        return tensor.tolist()

    assert group(2).all(synchronize) == [[[1, 2], [3, 4]]] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_kind_of_this_machine(monkeypatch, kind):
    assert _devices.of_this_machine() is _devices.KINDS["cuda"] or torch.accelerator.is_available()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in KINDS:
        monkeypatch.setattr(getattr(torch, name), "device_count", lambda name=name: int(name == kind))
    assert _devices.of_this_machine() is _devices.KINDS[kind]
    assert {str(one) for one in _backend.ProcessGroup._device_types.fget(None)} == {"cpu", kind}


def test_backend_is_registered_for_all_devices(script):
    running = script(
        "import pccl_autoload, torch.distributed as dist\n"
        "pccl_autoload.register()\n"
        "print('devices', dist.Backend.backend_capability['pccl'])"
    )
    assert running.line("devices").split(maxsplit=1)[1] == str(["cpu", "cuda", *KINDS])
