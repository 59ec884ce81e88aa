/* Scenarios in files of their own. */
#ifndef SIM_SCENARIOS_H
#define SIM_SCENARIOS_H

#include "scenario.h"

void scenario_f1(struct sim *sim);
void scenario_f2(struct sim *sim);
void scenario_f3(struct sim *sim);
void scenario_f4(struct sim *sim);
void scenario_f4_alone(struct sim *sim);
void scenario_f5(struct sim *sim);
void scenario_f6(struct sim *sim);
void scenario_f7(struct sim *sim);
void scenario_f8(struct sim *sim);
void scenario_f9(struct sim *sim);
void scenario_f10(struct sim *sim);
void scenario_f12(struct sim *sim);
void scenario_f13(struct sim *sim);
void scenario_f14(struct sim *sim);
void scenario_f14_edge(struct sim *sim);
void scenario_f15(struct sim *sim);
void scenario_f16(struct sim *sim);
void scenario_f18(struct sim *sim);
void scenario_f20(struct sim *sim);
void scenario_f21(struct sim *sim);
void scenario_f22(struct sim *sim);
void scenario_f23(struct sim *sim);
void scenario_f24(struct sim *sim);
void scenario_f26(struct sim *sim);
void scenario_f27(struct sim *sim);
void scenario_stopped_peer(struct sim *sim);
void scenario_mismatch(struct sim *sim);
void scenario_commit_then_crash(struct sim *sim);
void scenario_recover_then_crash(struct sim *sim);
void scenario_run_over(struct sim *sim);

#endif
