static inline long within(long value, long low, long high)
{
    return value < low ? low : value < high ? value : high;
}

/* How many of `count` places, `step` apart from `start` on, lie before `limit`. */
static inline long before(long limit, long start, long step, long count)
{
    return within((limit - start + step - 1) / step, 0, count);
}
