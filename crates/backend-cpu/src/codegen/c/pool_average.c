#define START 0

static inline float with_element(float so_far, float element)
{
    return so_far + element;
}

#ifdef DIVISOR
static inline void finish(long oz, long oy, float *y)
{
    (void)oz;
    (void)oy;
    for (long i = 0; i < OUT_X; i++)
        y[i] /= (float)DIVISOR;
}
#else
/* How many elements window number `at` of a dimension has: of the image, and of the padding that was asked for, if that
   counts. */
static inline long counted(long at, long size, long taps, long stride, long dilation, long pad, long pad_after)
{
    const long start = at * stride - pad;
    const long begin = PADDING_COUNTS ? -pad : 0;
    const long end = PADDING_COUNTS ? size + pad_after : size;
    return before(end, start, dilation, taps) - before(begin, start, dilation, taps);
}

/* Makes means of the sums. */
static inline void finish(long oz, long oy, float *y)
{
    const long deep = counted(oz, IN_Z, KERNEL_Z, STRIDE_Z, DILATION_Z, PAD_FRONT, PAD_BACK);
    const long high = counted(oy, IN_Y, KERNEL_Y, STRIDE_Y, DILATION_Y, PAD_TOP, PAD_BOTTOM);
    for (long i = 0; i < OUT_X; i++) {
        const long wide = counted(i, IN_X, KERNEL_X, STRIDE_X, DILATION_X, PAD_LEFT, PAD_RIGHT);
        y[i] /= (float)(deep * high * wide);
    }
}
#endif
