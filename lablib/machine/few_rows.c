/* Products of a few rows with a matrix, C = alpha A B + beta C, that read each weight once.

   Decoding multiplies 1 to 16 rows by every matrix of a model, which should take as long as reading
   it. OpenBLAS copies the whole matrix into another order first. This cblas_sgemm stands in front
   of OpenBLAS's: it computes products of few rows itself, and hands all others on.

   The numbers of a row don't depend on how many rows there are: each sum has one order. */

#include <stddef.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#if defined(__AVX__)
enum { LANES = 8 }; /* floats of a vector; 16 are no faster, as few of them lie in one cache line */
#else
enum { LANES = 4 };
#endif
#if defined(__AVX512VL__) || defined(__aarch64__)
enum { UP = 6 }; /* rows of A at a time: UP * ACROSS sums stay in 32 registers */
#else
enum { UP = 3 }; /* in 16 */
#endif
enum { ACROSS = 4 };              /* rows of B at a time for dots, vectors of a row for strips */
enum { WIDTH = ACROSS * LANES };  /* columns of a strip */
enum { MOST_ROWS = 16 };          /* beyond, a product is worth OpenBLAS's copy */
enum { STEP = 16 };               /* floats of a cache line, which is asked for once */
enum { DEPTH = 512 };             /* rows of B that are added before the next rows of A */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float quad __attribute__((vector_size(16), aligned(4), may_alias));
typedef void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                      float, float *, int);

typedef struct {
    int rows, columns, depth;
    const float *a; /* (rows, depth), each row lda after the one before */
    const float *b; /* (columns, depth) for dots, (depth, columns) for strips */
    float *c;       /* (rows, columns) */
    ptrdiff_t lda, ldb, ldc;
    float alpha, beta;
} product;

static sgemm openblas;

/* Say which cblas_sgemm is to compute all other products. */
void few_rows_start(sgemm other) { openblas = other; }

#define INLINE static inline __attribute__((always_inline))
/* At most UP, and known to the compiler, so that sums are registers. */
#define ROWS(n) ((n) < UP ? (n) : UP)

INLINE void put(const product *p, int row, int column, float sum) {
    float *c = p->c + row * p->ldc + column;
    *c = p->beta == 0 ? p->alpha * sum : p->alpha * sum + p->beta * *c;
}

INLINE float total_of(const vector *sums) {
    const quad *quads = (const quad *)sums;
    quad four = quads[0];
    for (int n = 1; n < LANES / 4; n++) four += quads[n];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

/* --- B (columns, depth): each number is the dot product of a row of A and one of B --- */

/* Put the dots of some rows of A with some of B.

   The next rows of B are asked for meanwhile, each in one of the passes over these, so that memory
   is never idle: a core that waits for what it asked for reads half as fast. They go into the
   second cache, which has more requests under way than the first, and holds this pass's A. */
INLINE void dot_tile(const product *p, int row, int column, const int rows, const int across) {
    const float *a = p->a + row * p->lda;
    const float *b = p->b + column * p->ldb;
    int passes = (p->rows + UP - 1) / UP;
    int is_asked[ACROSS];
    for (int j = 0; j < ACROSS; j++) is_asked[j] = j % passes == row / UP;
    vector sums[UP][ACROSS] = {0};
    int k = 0;
    for (; k + STEP <= p->depth; k += STEP)
        for (int j = 0; j < across; j++) {
            const float *weights = b + j * p->ldb + k;
            if (is_asked[j]) __builtin_prefetch(weights + across * p->ldb, 0, 2);
            for (int i = 0; i < rows; i++)
                for (int v = 0; v < STEP; v += LANES)
                    sums[i][j] += *(const vector *)(weights + v) *
                                  *(const vector *)(a + i * p->lda + k + v);
        }
    for (; k + LANES <= p->depth; k += LANES)
        for (int j = 0; j < across; j++)
            for (int i = 0; i < rows; i++)
                sums[i][j] += *(const vector *)(b + j * p->ldb + k) *
                              *(const vector *)(a + i * p->lda + k);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < across; j++) {
            float rest = 0;
            for (int n = k; n < p->depth; n++) rest += a[i * p->lda + n] * b[j * p->ldb + n];
            put(p, row + i, column + j, total_of(&sums[i][j]) + rest);
        }
}

INLINE void dot_rows(const product *p, int column, const int across) {
    int row = 0;
    for (; row + UP <= p->rows; row += UP) dot_tile(p, row, column, UP, across);
    switch (p->rows - row) {
        case 5: dot_tile(p, row, column, ROWS(5), across); break;
        case 4: dot_tile(p, row, column, ROWS(4), across); break;
        case 3: dot_tile(p, row, column, ROWS(3), across); break;
        case 2: dot_tile(p, row, column, ROWS(2), across); break;
        case 1: dot_tile(p, row, column, ROWS(1), across);
    }
}

static void dots(const product *p) {
    int column = 0;
    for (; column + ACROSS <= p->columns; column += ACROSS) dot_rows(p, column, ACROSS);
    for (; column < p->columns; column++) dot_rows(p, column, 1);
}

/* --- B (depth, columns): strips of columns, to which each row of B adds a multiple --- */

INLINE void strip_tile(const product *p, int row, int column, int from, int to, const int rows,
                       float (*sums)[WIDTH]) {
    const float *a = p->a + row * p->lda;
    const float *b = p->b + column;
    vector tile[UP][ACROSS];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < ACROSS; v++) tile[i][v] = *(const vector *)(sums[row + i] + v * LANES);
    for (int k = from; k < to; k++)
        for (int v = 0; v < ACROSS; v++) {
            vector weights = *(const vector *)(b + k * p->ldb + v * LANES);
            for (int i = 0; i < rows; i++) tile[i][v] += weights * a[i * p->lda + k];
        }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < ACROSS; v++) *(vector *)(sums[row + i] + v * LANES) = tile[i][v];
}

INLINE void strip_rows(const product *p, int column, int from, int to, float (*sums)[WIDTH]) {
    int row = 0;
    for (; row + UP <= p->rows; row += UP) strip_tile(p, row, column, from, to, UP, sums);
    switch (p->rows - row) {
        case 5: strip_tile(p, row, column, from, to, ROWS(5), sums); break;
        case 4: strip_tile(p, row, column, from, to, ROWS(4), sums); break;
        case 3: strip_tile(p, row, column, from, to, ROWS(3), sums); break;
        case 2: strip_tile(p, row, column, from, to, ROWS(2), sums); break;
        case 1: strip_tile(p, row, column, from, to, ROWS(1), sums);
    }
}

static void narrow_strip(const product *p, int column) {
    int width = p->columns - column;
    for (int row = 0; row < p->rows; row++) {
        float sums[WIDTH] = {0};
        for (int k = 0; k < p->depth; k++)
            for (int j = 0; j < width; j++)
                sums[j] += p->a[row * p->lda + k] * p->b[k * p->ldb + column + j];
        for (int j = 0; j < width; j++) put(p, row, column + j, sums[j]);
    }
}

static void strips(const product *p) {
    int column = 0;
    for (; column + WIDTH <= p->columns; column += WIDTH) {
        float sums[MOST_ROWS][WIDTH] = {0};
        for (int from = 0; from < p->depth; from += DEPTH) {
            int to = from + DEPTH < p->depth ? from + DEPTH : p->depth;
            strip_rows(p, column, from, to, sums);
        }
        for (int row = 0; row < p->rows; row++)
            for (int j = 0; j < WIDTH; j++) put(p, row, column + j, sums[row][j]);
    }
    if (column < p->columns) narrow_strip(p, column);
}

/* --- any product, in the one order of lablib.same_bits: each number is a sum from the first k to the
   last, whatever the sizes and the layout, so that zeros before or after it change nothing --- */

enum { HEIGHT = 96 }; /* rows of A for each copy of B's */
enum { BLOCK = 256 }; /* rows of B in a copy: 32 KB */
enum { NARROW = 1 };  /* vectors of a strip's last columns, where they are few */

static int is_strict;

/* Say whether all products are to be added in one order from now on. */
void few_rows_strict(int yes) { is_strict = yes; }

/* A's numbers lie `down` apart from row to row and `on` along a row. */
typedef struct {
    const float *at;
    ptrdiff_t down, on;
} left;

/* Copy columns of B for vectors to read: copy[k][j]. The columns that it hasn't are 0. */
static void lay_out(const product *p, int is_trans, int column, int width, int from, int to,
                    float (*copy)[WIDTH]) {
    int j = 0;
    if (!is_trans)
        for (int k = from; k < to; k++)
            for (j = 0; j < width; j++) copy[k - from][j] = p->b[k * p->ldb + column + j];
    for (; j + 4 <= width; j += 4) {
        const float *b = p->b + (column + j) * p->ldb;
        int k = from;
#ifdef __SSE__
        for (; k + 4 <= to; k += 4) {
            quad four[4];
            for (int n = 0; n < 4; n++) four[n] = *(const quad *)(b + n * p->ldb + k);
            _MM_TRANSPOSE4_PS(four[0], four[1], four[2], four[3]);
            for (int n = 0; n < 4; n++) *(quad *)&copy[k - from + n][j] = four[n];
        }
#endif
        for (; k < to; k++)
            for (int n = 0; n < 4; n++) copy[k - from][j + n] = b[n * p->ldb + k];
    }
    for (; j < width; j++)
        for (int k = from; k < to; k++) copy[k - from][j] = p->b[(column + j) * p->ldb + k];
    for (int k = from; width < WIDTH && k < to; k++)
        for (j = width; j < WIDTH; j++) copy[k - from][j] = 0;
}

INLINE void tile_in_order(left a, const float *b, ptrdiff_t ldb, int depth, const int rows,
                          const int across, float (*sums)[WIDTH]) {
    vector tile[UP][ACROSS];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < across; v++) tile[i][v] = *(const vector *)(sums[i] + v * LANES);
    for (int k = 0; k < depth; k++)
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < across; v++)
                tile[i][v] += *(const vector *)(b + k * ldb + v * LANES) * a.at[i * a.down + k * a.on];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < across; v++) *(vector *)(sums[i] + v * LANES) = tile[i][v];
}

INLINE void rows_in_order(left a, int count, const float *b, ptrdiff_t ldb, int depth,
                          const int across, float (*sums)[WIDTH]) {
    for (; count >= UP; count -= UP, a.at += UP * a.down, sums += UP)
        tile_in_order(a, b, ldb, depth, UP, across, sums);
    switch (count) {
        case 5: tile_in_order(a, b, ldb, depth, ROWS(5), across, sums); break;
        case 4: tile_in_order(a, b, ldb, depth, ROWS(4), across, sums); break;
        case 3: tile_in_order(a, b, ldb, depth, ROWS(3), across, sums); break;
        case 2: tile_in_order(a, b, ldb, depth, ROWS(2), across, sums); break;
        case 1: tile_in_order(a, b, ldb, depth, ROWS(1), across, sums);
    }
}

static void strip_in_order(const product *p, left a, int is_trans, int top, int height, int column) {
    int width = p->columns - column < WIDTH ? p->columns - column : WIDTH;
    int is_direct = !is_trans && width == WIDTH && height <= UP; /* each number is read once */
    int is_more = p->alpha == 1 && p->beta == 1; /* the sums in C go on */
    float copy[BLOCK][WIDTH], sums[HEIGHT][WIDTH];
    for (int i = 0; i < height; i++)
        for (int j = 0; j < WIDTH; j++)
            sums[i][j] = is_more && j < width ? p->c[(top + i) * p->ldc + column + j] : 0;
    for (int from = 0; from < p->depth; from += BLOCK) {
        int to = from + BLOCK < p->depth ? from + BLOCK : p->depth;
        left block = {a.at + top * a.down + from * a.on, a.down, a.on};
        const float *b = is_direct ? p->b + from * p->ldb + column : copy[0];
        ptrdiff_t ldb = is_direct ? p->ldb : WIDTH;
        if (!is_direct) lay_out(p, is_trans, column, width, from, to, copy);
        if (width <= NARROW * LANES)
            rows_in_order(block, height, b, ldb, to - from, NARROW, sums);
        else
            rows_in_order(block, height, b, ldb, to - from, ACROSS, sums);
    }
    for (int i = 0; i < height; i++)
        for (int j = 0; j < width; j++)
            if (is_more)
                p->c[(top + i) * p->ldc + column + j] = sums[i][j];
            else
                put(p, top + i, column + j, sums[i][j]);
}

static void in_order(const product *p, left a, int is_trans) {
    for (int top = 0; top < p->rows; top += HEIGHT) {
        int height = p->rows - top < HEIGHT ? p->rows - top : HEIGHT;
        for (int column = 0; column < p->columns; column += WIDTH)
            strip_in_order(p, a, is_trans, top, height, column);
    }
}

/* Read n floats and do next to nothing with them: no product of a matrix can be sooner. */
float few_rows_read(const float *numbers, size_t n) {
    vector sums[ACROSS] = {0};
    for (; n >= WIDTH; n -= WIDTH, numbers += WIDTH)
        for (int v = 0; v < ACROSS; v++) sums[v] += *(const vector *)(numbers + v * LANES);
    float sum = 0;
    for (int v = 0; v < ACROSS; v++) sum += total_of(&sums[v]);
    while (n--) sum += numbers[n];
    return sum;
}

void cblas_sgemm(int order, int trans_a, int trans_b, int rows, int columns, int depth, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc) {
    int is_known = order == ROW_MAJOR && (trans_a == TRANS || trans_a == NO_TRANS) &&
                   (trans_b == TRANS || trans_b == NO_TRANS) && rows > 0 && columns > 0 &&
                   depth > 0 && alpha != 0;
    int is_few = is_known && trans_a == NO_TRANS && rows <= MOST_ROWS;
    product p = {rows, columns, depth, a, b, c, lda, ldb, ldc, alpha, beta};
    if (is_known && is_strict)
        in_order(&p, (left){a, trans_a == TRANS ? 1 : lda, trans_a == TRANS ? lda : 1},
                 trans_b == TRANS);
    else if (!is_few)
        openblas(order, trans_a, trans_b, rows, columns, depth, alpha, a, lda, b, ldb, beta, c, ldc);
    else if (trans_b == TRANS)
        dots(&p);
    else
        strips(&p);
}
