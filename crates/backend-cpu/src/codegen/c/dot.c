/* The sums over k of a[k] * b[k] for DOTS rows of b that lie side by side: in TILE_COLUMNS parts that are added up in
   the end, always in this order. */
static inline __attribute__((always_inline)) void dot(const int rows, const float *a, const float *b, float *result)
{
    vec sum[DOTS][VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < VECTORS; v++)
            sum[r][v] = (vec){0};
    const long whole = DEPTH - DEPTH % TILE_COLUMNS;
    for (long k = 0; k < whole; k += TILE_COLUMNS)
        for (int v = 0; v < VECTORS; v++) {
            const vec factor = *(const vec *)(a + k + v * LANES);
            for (int r = 0; r < rows; r++)
                sum[r][v] += factor * *(const vec *)(b + r * DEPTH + k + v * LANES);
        }
    for (int r = 0; r < rows; r++) {
        float parts[TILE_COLUMNS];
        for (int i = 0; i < TILE_COLUMNS; i++)
            parts[i] = sum[r][i / LANES][i % LANES];
        for (long k = whole; k < DEPTH; k++)
            parts[k - whole] += a[k] * b[r * DEPTH + k];
        for (int half = TILE_COLUMNS / 2; half > 0; half /= 2)
            for (int i = 0; i < half; i++)
                parts[i] += parts[i + half];
        result[r] = parts[0];
    }
}
