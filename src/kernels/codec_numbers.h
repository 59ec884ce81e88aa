/*
 * Computes the numbers at the head of a block, and from these the numbers that the loops use, so that both ends use the
 * same ones. Part of codec_block.h.
 */
#ifndef PCCL_KERNELS_CODEC_NUMBERS_H
#define PCCL_KERNELS_CODEC_NUMBERS_H

#include "kernels/codec_loops.h"

/*
 * Returns a power of two by which the values of a block are scaled, so that their range does not overflow and a step
 * does not lose digits. The multiplication keeps all relevant digits, because a tiny range implies that all values are
 * small.
 */
static VALUE unit_for(VALUE low, VALUE high)
{
    VALUE range = high - low;
    return !(range <= RANGE_HUGE) ? (VALUE)0.25 : range < RANGE_TINY && range > 0 ? UNIT_TINY : 1;
}

/*
 * Returns the ramp for a head. If rounding would keep the highest code from reaching `high`, makes the step slightly
 * wider. Larger values are then clamped, so that both ends of the range are exact.
 */
static struct ramp ramp_of(const struct head *head, uint32_t top)
{
    VALUE unit = unit_for(head->first, head->second);
    struct ramp ramp = {.low = head->first * unit, .high = head->second * unit, .back = 1 / unit};
    ramp.step = (ramp.high - ramp.low) / (VALUE)top;
    VALUE reached = (VALUE)top * ramp.step;
    reached = ramp.low + reached;
    if (reached < ramp.high)
        ramp.step *= WIDER;
    return ramp;
}

static struct quantizer quantizer_of_ramp(const struct ramp *ramp)
{
    return (struct quantizer){1 / ramp->back, ramp->low, ramp->step > 0 ? 1 / ramp->step : 0};
}

/* Returns the head for a block of equal values. The value is one step from zero, so it is exact. */
static struct head constant_lattice(VALUE value, struct quantizer *quantizer)
{
    *quantizer = (struct quantizer){1, 0, 0};
    return (struct head){.first = (VALUE)(value > 0 ? -1 : value < 0), .second = value > 0 ? value : -value};
}

static VALUE floor_of(VALUE value)
{
    VALUE nearest = (value + ROUNDER) - ROUNDER;
    return nearest > value ? nearest - 1 : nearest;
}

/*
 * Returns the head of a lattice whose points are the multiples of the scale, so that zero is exact. It has one step
 * more than the range requires, because `low` is between two points. The scale is at least a FINEST-th of the largest
 * value, which keeps the zero point and all differences from it exact.
 */
static struct head lattice_for(VALUE low, VALUE high, uint32_t top, struct quantizer *quantizer)
{
    if (low == high)
        return constant_lattice(low, quantizer);
    VALUE unit = unit_for(low, high);
    VALUE wanted = (high * unit - low * unit) / (VALUE)(top - 1);
    wanted = larger(wanted, larger(high, -low) * unit / FINEST);
    VALUE scale = wanted / unit;
    if (scale * unit < wanted) /* rounded down to a subnormal, so the next one is used */
        scale += SMALLEST;
    VALUE step = scale * unit;
    quantizer->unit = unit;
    quantizer->inverse = 1 / step;
    VALUE lowest = floor_of(low * unit * quantizer->inverse);
    quantizer->origin = lowest * step;
    return (struct head){.first = 0 - lowest, .second = scale};
}

#endif
