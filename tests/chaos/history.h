/*
 * A peer's history: one JSON object a line, each written by one write(), so that what a killed process did is there.
 * All processes of a host share its monotonic clock. history.py reads it:
 *
 *   {"n":7,"e":"begin","t":<us>,"call":"all-reduce","key":"...","id":"..."}   before a call that may block
 *   {"n":7,"e":"end","t":<us>,"rc":0,...}                                     after it, with its result
 *   {"e":"<event>","t":<us>,...}                                              what else there is to say
 */
#ifndef PCCL_TESTS_CHAOS_HISTORY_H
#define PCCL_TESTS_CHAOS_HISTORY_H

#include <pccl.h>

#include <stdint.h>

enum { HISTORY_LINE = 4096 };

void history_open(const char *path);
uint64_t history_now_us(void);
/* The id that further calls are made with. */
void history_set_id(const char *id);
/* Returns the number of the call. An empty key: it is no operation. */
uint64_t history_begin(const char *call, const char *key);
/* words: of a failure. more: further members, ",\"name\":...", or "". */
void history_end(uint64_t number, pcclResult_t result, const char *words, const char *more);
void history_note(const char *event, const char *more);
/* As a JSON string, with its quotes. */
const char *history_quote(const char *text, char *room, size_t size);

#endif
