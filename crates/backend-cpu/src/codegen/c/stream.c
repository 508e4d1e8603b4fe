/* Adds to `sum` the products of four elements of a row of a and as many rows of b, `columns` columns of them. */
static inline void add_four(
    const float *restrict a, long a_step, const float *restrict b, float *restrict sum, long columns)
{
    const float a0 = a[0], a1 = a[a_step], a2 = a[2 * a_step], a3 = a[3 * a_step];
    for (long i = 0; i < columns; i++)
        sum[i] += (a0 * b[i] + a1 * b[COLUMNS + i]) + (a2 * b[2 * COLUMNS + i] + a3 * b[3 * COLUMNS + i]);
}

static inline void add_one(float a, const float *restrict b, float *restrict sum, long columns)
{
    for (long i = 0; i < columns; i++)
        sum[i] += a * b[i];
}

/* Adds to the output the products of `depth` columns of a and rows of b. Each row of b is read once. */
static void stream(const float *a, const float *b, long depth, float *y, long columns)
{
    float sum[ROWS][PART];
    for (long r = 0; r < ROWS; r++)
        for (long i = 0; i < columns; i++)
            sum[r][i] = 0;
    const long fours = depth - depth % 4;
    for (long k = 0; k < fours; k += 4)
        for (long r = 0; r < ROWS; r++)
            add_four(a + r * A_ROW + k * A_DEPTH, A_DEPTH, b + k * COLUMNS, sum[r], columns);
    for (long k = fours; k < depth; k++)
        for (long r = 0; r < ROWS; r++)
            add_one(a[r * A_ROW + k * A_DEPTH], b + k * COLUMNS, sum[r], columns);
    for (long r = 0; r < ROWS; r++)
        for (long i = 0; i < columns; i++)
            y[r * COLUMNS + i] += sum[r][i];
}
