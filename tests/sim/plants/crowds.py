"""Crowds of newcomers."""
from .bug import Bug

PLANTS = [
    Bug("queues_are_planned_all_the_time",
        "what waiting newcomers cost must not grow with every event of others",
        [], ["crowd-costs"],
        [
            ("src/master/newcomers.c",
             "while (!pccl_link_is_alone(&m->stale_queues))",
             "pccl_master_touch_all_queues(m); while (!pccl_link_is_alone(&m->stale_queues))"),
        ]),
    Bug("crowd_is_served_first",
        "a newcomer from elsewhere must not wait until a crowd before it has failed, one after another",
        [], ["crowd-of-a-group"],
        [
            ("src/master/newcomers.c",
             "WARM_UP_WIDTH_ALL = 4 * WARM_UP_WIDTH",
             "WARM_UP_WIDTH_ALL = WARM_UP_WIDTH"),
            ("src/master/newcomers.c",
             "next == NULL || i->site->warming_here < next->site->warming_here",
             "next == NULL"),
        ]),
    Bug("crowd_keeps_its_places",
        "two addresses must not fill all places for newcomers",
        [], ["crowd-makes-room"],
        [
            ("src/master/newcomers.c",
             "goes == NULL || goes->site->count <= of_site + 1",
             "goes == NULL || of_site < goes->site->count"),
        ]),
    Bug("address_has_no_share",
        "one address must not fill the places for newcomers",
        [], ["crowd-of-an-address"],
        [
            ("src/master/newcomers.c",
             "of_site >= PCCL_NEWCOMERS_OF_ADDRESS_MAX",
             "false"),
            ("src/master/newcomers.c",
             "queue != NULL && queue->count >= PCCL_NEWCOMERS_OF_GROUP_MAX && !crowd_out(m, queue, of_site)",
             "false"),
        ]),
    Bug("first_of_a_group_may_be_silent",
        "who needed no link to be admitted and calls nothing must not hold up the run for ever",
        [], ["crowd-never-calls"],
        [
            ("src/master/rounds.c",
             "remote->untried = group->ring_count == 1;",
             ""),
        ]),
    Bug("who_has_called_is_untried",
        "who has called something is waited for as long as it lives",
        [], ["crowd-never-calls"],
        [
            ("src/master/master.c",
             "from->untried = from->untried && msg->type == PCCL_MSG_view_ack;",
             ""),
        ]),
]
