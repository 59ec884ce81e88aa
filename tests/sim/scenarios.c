#include "sim.h"
const struct sim_scenario sim_scenarios[1] = {{"none", "none", NULL}};
const uint32_t sim_scenario_count = 0;
