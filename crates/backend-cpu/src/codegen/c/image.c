/* Lays `count` elements of an image's line side by side, from column `left` on and STRIDE_X apart; zeros where there is
   padding. No line at all is padding, too. */
static inline void lay(float *restrict to, const float *restrict line, long left, long count)
{
    const long begin = line ? before(0, left, STRIDE_X, count) : count;
    const long end = line ? before(IN_X, left, STRIDE_X, count) : count;
    for (long i = 0; i < begin; i++)
        to[i] = 0;
    for (long i = begin; i < end; i++)
        to[i] = line[left + i * STRIDE_X];
    for (long i = end; i < count; i++)
        to[i] = 0;
}

/* The image's line `y`, or none. */
static inline const float *line_of(const float *plane, long y)
{
    return y < 0 || y >= IN_Y ? 0 : plane + y * IN_X;
}
