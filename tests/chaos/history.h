/*
 * A peer's history: one JSON object a line. Each is written before its function returns, so a kill can cut off the last
 * one only. The processes share the monotonic clock of one machine. history.py reads the file:
 *
 *   {"n":7,"e":"begin","t":<us>,"call":"all-reduce","key":"...","id":"..."}   before a call that may block
 *   {"n":7,"e":"end","t":<us>,"rc":0,...}                                     after it, with its result
 *   {"e":"<event>","t":<us>,...}                                              other events
 */
#ifndef PCCL_TESTS_CHAOS_HISTORY_H
#define PCCL_TESTS_CHAOS_HISTORY_H

#include <pccl.h>

#include <stdint.h>

enum { HISTORY_LINE = 4096 };

void history_open(const char *path);
uint64_t history_now_us(void);
/* Sets the peer id that is recorded with further calls. */
void history_set_id(const char *id);
/* Ends the process with status 3. chaos.py accepts that only where `why` tells of a shortage that the process has. */
_Noreturn void history_give_up(const char *what, const char *why);
/* Records the beginning of a call and returns its number. `key` is empty unless the call is an operation. */
uint64_t history_begin(const char *call, const char *key);
/* words: reason of a failure. more: further members, ",\"name\":...", or "". */
void history_end(uint64_t number, pcclResult_t result, const char *words, const char *more);
void history_note(const char *event, const char *more);
/* Writes the text to `room` as a JSON string, with quotes, and returns it. */
const char *history_quote(const char *text, char *room, size_t size);

#endif
