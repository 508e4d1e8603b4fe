/* Pools one line of the output: a tap of all its elements at a time, those on the padding left out. */
static inline void pool_line(const float *restrict plane, long oz, long oy, float *restrict y)
{
    for (long i = 0; i < OUT_X; i++)
        y[i] = START;
    for (long kz = 0; kz < KERNEL_Z; kz++) {
        const long z = oz * STRIDE_Z - PAD_FRONT + kz * DILATION_Z;
        if (z < 0 || z >= IN_Z)
            continue;
        for (long ky = 0; ky < KERNEL_Y; ky++) {
            const long line = oy * STRIDE_Y - PAD_TOP + ky * DILATION_Y;
            if (line < 0 || line >= IN_Y)
                continue;
            const float *restrict x = plane + (z * IN_Y + line) * IN_X;
            for (long kx = 0; kx < KERNEL_X; kx++) {
                const long left = kx * DILATION_X - PAD_LEFT;
                const long begin = before(0, left, STRIDE_X, OUT_X);
                const long end = before(IN_X, left, STRIDE_X, OUT_X);
                for (long i = begin; i < end; i++)
                    y[i] = with_element(y[i], x[left + i * STRIDE_X]);
            }
        }
    }
    finish(oz, oy, y);
}
