"""What `import torch` finds of PCCL: the name of the backend "pccl" of torch.distributed. A package of its own, so that
`import torch` neither imports pccl nor loads its library; both happen when a process group is made."""

from __future__ import annotations

from typing import Any


def register() -> None:
    """The entry point of the group torch.backends. Whatever it raised would break `import torch`, so it raises
    nothing: without torch.distributed there is nothing to register."""
    try:
        import torch.distributed as dist

        if not dist.is_available() or "PCCL" in dist.Backend._plugins:
            return
        dist.Backend.register_backend("pccl", _make_group, extended_api=True, devices=["cpu", "cuda", "xpu", "mps"])
        dist.register_rendezvous_handler("pccl", _rendezvous)
    except Exception:
        pass


def _make_group(options: Any, backend_options: Any) -> Any:
    from pccl.torch import _backend

    return _backend.make_group(options, backend_options)


def _rendezvous(url: str, *_: Any, **more: Any) -> Any:
    from pccl.torch import _rendezvous

    return _rendezvous.from_master(url, **more)
