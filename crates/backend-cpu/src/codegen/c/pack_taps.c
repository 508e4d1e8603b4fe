/* Fills a panel for `columns` output pixels from the `first` on: each row holds one tap of all of them. Taps are
   counted as in the filter, over input channels, then down, then across; `begin` and `end` say which. */
static void pack(const float *x, long begin, long end, long first, long columns, float *panel)
{
    for (long k = begin; k < end; k++, panel += PITCH) {
        const float *plane = x + k / TAPS * IN_Y * IN_X;
        const long top = k % TAPS / KERNEL_X * DILATION_Y - PAD_TOP;
        const long left = k % KERNEL_X * DILATION_X - PAD_LEFT;
        /* Pixels of one output line at a time. */
        long count, done = 0;
        for (long oy = first / OUT_X, ox = first % OUT_X; done < columns; oy++, ox = 0, done += count) {
            count = least(OUT_X - ox, columns - done);
            lay(panel + done, line_of(plane, oy * STRIDE_Y + top), ox * STRIDE_X + left, count);
        }
        for (; done % TILE_COLUMNS != 0; done++)
            panel[done] = 0;
    }
}
