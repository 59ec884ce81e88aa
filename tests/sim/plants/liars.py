"""Members that lie, and strangers: what they say costs nobody else anything."""
from .bug import Bug

PLANTS = [
    Bug("acknowledges_views_untold",
        "6.4: whoever acknowledges a view that it was not told makes all others remember what it invents",
        [], ["lying-views"],
        [
            ("src/master/operations.c",
             "return from->views_owed > 0 &&",
             "return true ||"),
        ]),
    Bug("ends_without_limit",
        "2.3: one makes the others remember more than they can",
        [], ["lone-aborts", "lying-ends"],
        [
            ("src/master/operations.c",
             "++from->lone_aborts <= PCCL_OPS_LONE_MAX",
             "true"),
        ]),
    Bug("first_to_say_is_blamed",
        "2.3: who is first to acknowledge views goes for what all had launched",
        [], ["many-killed"],
        [
            ("src/master/operations.c",
             "2 * ++op->named_count <= from->group->ring_count",
             "true"),
        ]),
    Bug("room_for_four_liars_is_missing",
        "2.3: four together make the others remember more than they can",
        [], ["lying-views-together"],
        [
            ("src/core/limits.h",
             "PCCL_TOMBSTONES_MAX = 30720",
             "PCCL_TOMBSTONES_MAX = 12288"),
        ]),
    Bug("hoards_operations",
        "6.1: the operations that one peer alone has finished fill the master",
        [], ["hoarding"],
        [
            ("src/master/operations.c",
             "from->under_way == PCCL_OPS_HELD_MAX",
             "from->under_way == UINT32_MAX"),
        ]),
]
