/* Adds one input channel's taps to `vectors` vectors of an output line, of which `count` elements are wanted; the first
   channel's to `start`. Line by line, the strip holds the image's columns that are STRIDE_X apart side by side. */
static inline __attribute__((always_inline)) void span(
    const int vectors, const float *strip, const float *taps, float *y, long count, const float *start)
{
    vec sum[VECTORS];
    for (int v = 0; v < vectors; v++)
        sum[v] = (vec){0};
    for (long ky = 0; ky < KERNEL_Y; ky++)
        for (long kx = 0; kx < KERNEL_X; kx++) {
            const float tap = taps[ky * KERNEL_X + kx];
            const long across = kx * DILATION_X;
            const float *from = strip + ky * DILATION_Y * PITCH + across % STRIDE_X * PHASE + across / STRIDE_X;
            for (int v = 0; v < vectors; v++)
                sum[v] += tap * *(const vec *)(from + v * LANES);
        }
    if (count >= vectors * LANES)
        for (int v = 0; v < vectors; v++) {
            vec *to = (vec *)(y + v * LANES);
            if (start)
                *to = *start + sum[v];
            else
                *to += sum[v];
        }
    else
        for (long i = 0; i < count; i++)
            y[i] = (start ? *start : y[i]) + sum[i / LANES][i % LANES];
}

/* Fills the strip with what `lines` output lines need of a plane, padding included. */
static void lay_strip(const float *plane, long first_line, long first_column, long lines, float *strip)
{
    const long needed = (lines - 1) * STRIDE_Y + (KERNEL_Y - 1) * DILATION_Y + 1;
    for (long i = 0; i < needed; i++)
        for (long phase = 0; phase < STRIDE_X; phase++) {
            const float *line = line_of(plane, first_line * STRIDE_Y - PAD_TOP + i);
            lay(strip + i * PITCH + phase * PHASE, line, first_column * STRIDE_X - PAD_LEFT + phase, PHASE);
        }
}

/* Adds one input channel's taps to `count` elements of an output line. */
static void add_taps(const float *strip, const float *taps, float *y, long count, const float *start)
{
    long i = 0;
    for (; i + TILE_COLUMNS <= count; i += TILE_COLUMNS)
        span(VECTORS, strip + i, taps, y + i, TILE_COLUMNS, start);
    for (; i < count; i += LANES)
        span(1, strip + i, taps, y + i, count - i, start);
}
