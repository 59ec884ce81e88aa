/*
 * Pulses: the number of wake-ups of all members of a run together to check whether they run. They may share one host.
 */
#include "unit.h"
#include "drive/comm_watch.h"

enum { PULSE_US = 10000, A_SECOND_US = 1000000, TOGETHER_MOST = 5000 };

TEST(pulses_of_a_large_run_are_limited)
{
    for (uint32_t members = 0; members <= 50; members++)
        assert_int_equal(pccl_comm_pulse_us(members), PULSE_US);
    for (uint32_t members = 2; members <= 100000; members = members * 4 / 3 + 1)
        assert_true(members * (uint64_t)A_SECOND_US / pccl_comm_pulse_us(members) <= TOGETHER_MOST);
}
