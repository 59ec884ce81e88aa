"""The contents of fragments of pccl.diloco: whole parameters as given, or by count with about the same number of
elements in each, for which tensors are cut. The arithmetic of the pieces, in any order of memory, and their
checkpoints."""

import itertools
import random

import pytest
import support
from test_diloco import end, flat, start, train
from test_diloco_streaming import STRIDED, Clocks, Streaming, params

import pccl
from pccl.diloco import DiLoCo
from pccl.diloco._arrays import Piece, _views
from pccl.diloco._fragments import split

np = pytest.importorskip("numpy")

HOW = dict(inner_steps=6, fragments=3, delay=2, alpha=0.5, min_peers=2, bucket_bytes=8192, verify_every=0)


def names(fragments):
    return [[piece.label for piece in fragment] for fragment in fragments]


def end_of(piece, values):
    return values[piece.name].size if piece.end is None else piece.end


def sizes_of(fragments, values):
    return [sum(end_of(piece, values) - piece.begin for piece in fragment) for fragment in fragments]


# ---- contents


def test_as_given():
    assert names(split(params(), [["in", "h.0"], ["h.1.w", "h.1.b"], ["h.2"]], "strided")) == STRIDED


def test_layers_of_one_size_are_left_whole():
    layers = {f"h.{i}.{name}": np.zeros(300) for i in range(12) for name in ("w", "b")}
    layers["out.b"] = np.zeros(3)
    assert names(split(layers, 3, "strided"))[2] == sorted(f"h.{i}.{n}" for i in (2, 5, 8, 11) for n in ("w", "b"))
    found = names(split(layers, 4, "contiguous"))
    assert found[3] == [*sorted(f"h.{i}.{name}" for i in (9, 10, 11) for name in ("w", "b")), "out.b"]
    assert sorted(itertools.chain(*found)) == sorted(layers)
    few = {"a": np.zeros(3), "b": np.zeros(3)}
    assert names(split(few, 2, "strided")) == names(split(few, 2, "contiguous")) == [["a"], ["b"]]
    assert names(split(layers, 1, "strided")) == names(split(layers, 1, "contiguous")) == [sorted(layers)]


def test_what_is_larger_than_a_share_is_cut():
    """Its end moves to the smallest fragment, or to the next one."""
    shapes = {"h.0.w": (64, 64), "h.1.w": (512, 64), "h.2.b": (5,), "h.2.w": (64, 64)}
    layers = {name: np.zeros(shape) for name, shape in shapes.items()}
    found = split(layers, 3, "strided")
    last = ["h.2.b", "h.2.w"]
    assert names(found) == [["h.0.w", "h.1.w[23168:32768]"], ["h.1.w[0:13696]"], ["h.1.w[13696:23168]", *last]]
    assert sizes_of(found, layers) == [13696, 13696, 13573]
    found = split(layers, 3, "contiguous")
    assert names(found) == [["h.0.w", "h.1.w[0:9600]"], ["h.1.w[9600:23168]"], ["h.1.w[23168:32768]", *last]]


def drawn(dice):
    """Returns a random model of at least this number of elements, with names like those that layers have."""
    most = dice.choice([5, 100, 5000, 300000])
    made = {}
    for i in range(dice.randint(1, 30)):
        name = f"h.{dice.randint(0, 5)}.{i}" if dice.random() < 0.7 else f"part{i}"
        made[name] = np.broadcast_to(np.float32(0), dice.choice([0, 1, 1, 1]) * dice.randint(1, most))
    return made


@pytest.mark.parametrize("pattern", ["strided", "contiguous"])
def test_each_element_is_in_one_and_all_are_nearly_equal(pattern):
    dice = random.Random(5)
    for _ in range(500):
        values = drawn(dice)
        total = sum(value.size for value in values.values())
        count = min(dice.randint(1, dice.choice([3, 8, 70])), max(1, total))
        found = split(values, count, pattern)
        assert len(found) == count and all(fragment == sorted(fragment) for fragment in found)
        covered = {name: [] for name in values}
        for piece in itertools.chain(*found):
            covered[piece.name].append((piece.begin, end_of(piece, values)))
        for name, ranges in covered.items():
            borders = [0, *(end for _, end in sorted(ranges))]
            assert sorted(ranges) == list(zip(borders, borders[1:])) and borders[-1] == values[name].size
        sizes = sizes_of(found, values)
        assert max(sizes) <= -(-total // count) * 1.0625 and (min(sizes) > 0 or total == 0)


# ---- elements of a tensor


@pytest.mark.parametrize("shape", [(6,), (2, 3), (3, 2, 2), (1, 4, 1, 2)])
def test_any_range_of_an_array_in_any_order(shape):
    count = int(np.prod(shape))
    for order in itertools.permutations(range(len(shape))):
        array = np.zeros([shape[d] for d in order]).transpose(np.argsort(order))
        array[...] = np.arange(count).reshape(shape)
        for begin, stop in itertools.combinations(range(count + 1), 2):
            views = list(_views(array, begin, stop))
            assert np.concatenate([view.reshape(-1) for view in views]).tolist() == list(range(begin, stop))
            assert all(np.shares_memory(view, array) for view in views)


# ---- arithmetic


class Cut(Streaming):
    """The reference of Streaming, with pieces."""

    @staticmethod
    def _of(values, names):
        return np.concatenate([values[piece.name].reshape(-1)[piece.begin : piece.end] for piece in names])

    def _mix(self, p, own):
        begin = 0
        for piece in self._fragments[p]:
            where = slice(piece.begin, piece.end)
            place = own[piece.name].reshape(-1)[where]
            theta = self.parts[p].theta[begin : begin + len(place)]
            own[piece.name].reshape(-1)[where] = place * self._alpha + theta * self._rest
            begin += len(place)


def in_another_order(values):
    return {name: np.asfortranarray(value) for name, value in values.items()}


def as_torch(values):
    torch = pytest.importorskip("torch")
    return {name: torch.nn.Parameter(torch.from_numpy(value)) for name, value in values.items()}


def as_torch_in_another_order(values):
    return as_torch(in_another_order(values))


@pytest.mark.parametrize("pattern", ["strided", "contiguous"])
@pytest.mark.parametrize("form", [dict, in_another_order, as_torch, as_torch_in_another_order])
def test_it_is_the_reference_bit_by_bit(address, pattern, form):
    """For two peers. The trained parameters may have any order of elements in memory."""
    values = [in_another_order(params()) if "other" in form.__name__ else params() for _ in range(2)]
    two = start(address, 2, lambda i, comm: DiLoCo(comm, form(values[i]), pattern=pattern, **HOW))
    mirror = [params() for _ in range(2)]
    pieces = split(mirror[0], 3, pattern)
    assert sum(len(fragment) for fragment in pieces) == len(mirror[0]) + 2
    reference = Cut(mirror, pieces, Clocks([6] * 3, [0, 2, 4], 2), 0.5)
    for step in range(1, 20):
        for i in range(2):
            train(values[i], i, step)
            train(mirror[i], i, step)
        support.parallel([one.step for one in two])
        reference.tick(mirror)
        for one, mine, wanted in zip(two, values, mirror):
            assert np.array_equal(np.asarray(one.state_dict()["theta.float32"]), reference.theta)
            assert np.array_equal(flat(mine), flat(wanted))
        assert two[0].digest() == two[1].digest()
    end(two)


# ---- checkpoints


def test_a_state_of_other_fragments_is_refused(address):
    """Also if the same tensors are in the same order."""
    values = {name: np.zeros(500, np.float32) for name in "abc"}
    cuts = [2, 3, [["a"], ["b", "c"]], [["a", "b"], ["c"]]]
    made = [DiLoCo(pccl.Communicator(address), values, inner_steps=4, fragments=one) for one in cuts]
    for one, other in itertools.permutations(made, 2):
        with pytest.raises(pccl.InvalidArgument, match="or in other fragments"):
            one.load_state_dict(other.state_dict())
        one.load_state_dict(one.state_dict())


def test_what_error_feedback_has_kept_must_fit(address):
    how = dict(inner_steps=2, codec="int4", feedback=True)
    values = params()
    diloco = DiLoCo(pccl.Communicator(address), values, **how)
    diloco.join()
    state = diloco.state_dict()
    diloco.close()
    assert (state["feedback.float32"] == 0).all()  # there was no other peer
    assert not any(name.startswith("feedback") for name in diloco.state_dict())
    for wrong, words in (
        ({**state, "feedback.float32": np.zeros(3, np.float32)}, "feedback.float32 is .*, expected the shape"),
        ({**state, "feedback.other": 0, "feedback.float32": None}, "feedback.float32"),
    ):
        with pytest.raises(pccl.InvalidArgument, match=words):
            diloco.load_state_dict(wrong)
    diloco.load_state_dict(state)
    other = DiLoCo(pccl.Communicator(address), params(), inner_steps=2)
    other.load_state_dict(state)  # which needs no feedback


def test_a_piece_is_named_by_its_elements():
    assert [Piece("w").label, Piece("w", 0, 5).label, Piece("w", 5, 9).label] == ["w", "w[0:5]", "w[5:9]"]
