/* A Llama's block over rows, its weights as they are stored: what lies between its products.

   A token's rows are short: a norm of 576 numbers takes 0.1 us, and MLX takes 2 to 5 us to begin
   any operation, of which a block has some fifty. Here a block is two calls, and between them the
   cache takes keys and values in and queries read them: a third one, for few queries.

       block_before:  q, k, v = turn(norm(x) Wq'), turn(norm(x) Wk'), norm(x) Wv'
       block_read:    softmax(scale q k') v, over the keys that a query sees
       block_after:   y = x + read Wo';   y + (silu(norm(y) Wg') * norm(y) Wu') Wd'

   Rounded to 16 bits for the products (stored_weights.c) a row is once for q, k and v, and once for
   gate and up. A row's numbers come from nothing but itself, and sums have one order: in eight
   lanes along the row, which are then added up. So they are the same among any number of rows; and
   those of `block_read` among any keys that a query doesn't see.

   The definitions are `Block` and its parts in models/base.py, which MLX runs. */

#include "stored_weights.c"

#include <math.h>

enum { TILE = 128 }; /* rows that go through a block together: what they need stays in cache */

typedef struct {
    int columns, depth, bits, group, narrow;
    const uint16_t *codes;
    const void *scales, *minima;
} weight;

INLINE float added_up(floats x) {
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
}

INLINE floats at(const float *x) { return *(const floats *)x; }
INLINE void put(float *x, floats values) { *(floats *)x = values; }

/* Return e^x for x from -87 to 88, beyond as for these, within 1.2e-7 of itself. */
INLINE floats power_of_e(floats x) {
    floats lowest = (floats){0} - 87.0f, most = (floats){0} + 88.0f;
    ints low = x < lowest, high = x > most;
    x = (floats)(((ints)x & ~low & ~high) | ((ints)lowest & low) | ((ints)most & high));
    floats whole = x * 0x1.715476p+0f + 0x1.8p23f - 0x1.8p23f; /* x / log 2, rounded */
    floats r = x - whole * 0x1.62e400p-1f - whole * 0x1.7f7d1cp-20f; /* log 2 in two parts */
    floats sum = r * (1 / 5040.f) + 1 / 720.f; /* Taylor: |r| < 0.35 */
    sum = sum * r + 1 / 120.f, sum = sum * r + 1 / 24.f, sum = sum * r + 1 / 6.f;
    sum = sum * r + 0.5f, sum = sum * r + 1, sum = sum * r + 1;
    return sum * (floats)((__builtin_convertvector(whole, ints) + 127) << 23);
}

/* Write norm(x) of rows: x / sqrt(mean of squares + eps) * weight. `width` is a multiple of 8. */
static void norm(int rows, int width, const float *x, const float *weight, float eps, float *y) {
    for (int row = 0; row < rows; row++, x += width, y += width) {
        floats squares = {0};
        for (int k = 0; k < width; k += LANES) squares += at(x + k) * at(x + k);
        float by = 1 / sqrtf(added_up(squares) / (float)width + eps);
        for (int k = 0; k < width; k += LANES) put(y + k, at(x + k) * by * at(weight + k));
    }
}

/* Turn each head of a row by its position: cos (half), sin (2, half) as in kernels.Rotation. */
static void turn(float *x, int heads, int half, const float *cos, const float *sin) {
    for (int head = 0; head < heads; head++, x += 2 * half)
        for (int i = 0; i < half; i += LANES) {
            floats first = at(x + i), second = at(x + half + i);
            put(x + i, first * at(cos + i) + second * at(sin + i));
            put(x + half + i, second * at(cos + i) + first * at(sin + half + i));
        }
}

/* Write silu(gate) * up over gate: n numbers, a multiple of 8. */
static void gated(size_t n, float *gate, const float *up) {
    for (size_t k = 0; k < n; k += LANES) {
        floats g = at(gate + k);
        put(gate + k, g * at(up + k) / (1 + power_of_e(-g)));
    }
}

/* Write x w' for each of n weights: x is rounded once, as long as their groups are equal. */
static void times(int n, const weight *w, int rows, const float *x, float *const *y, void *space) {
    rounded q = {0};
    for (int i = 0; i < n; i++, w++) {
        product p = {rows, w->columns, w->depth, w->bits, w->group, w->narrow, x, w->codes,
                     w->scales, w->minima, y[i]};
        if (i == 0 || w->group != w[-1].group) q = round_rows(x, rows, w->depth, w->group, space);
        multiply(&p, &q);
    }
}

typedef struct {
    int rows, width, half;  /* x (rows, width); a head has 2 half numbers */
    int table;              /* rows of cos and sin, which begin again after the last */
    float eps;
    const float *x, *norm, *cos, *sin;
    weight w[3]; /* of q, k, v */
    float *y[3]; /* (rows, columns) each */
} before;

typedef struct {
    int rows, width; /* x (rows, width) */
    float eps;
    const float *x, *read, *norm; /* read (rows, depth of w[0]) */
    weight w[4];                  /* of output, gate, up, down */
    float *y;                     /* (rows, width) */
} after;

static size_t most(size_t a, size_t b) { return a > b ? a : b; }

/* Return bytes for the products of a tile: groups have 16 numbers or more. */
static size_t for_products(int rows, int depth) { return stored_space(rows, depth, 16); }

size_t block_before_space(const before *b) {
    int rows = b->rows < TILE ? b->rows : TILE;
    return (size_t)rows * b->width * sizeof(float) + for_products(rows, b->width);
}

void block_before(const before *b, void *space) {
    float *normed = space;
    for (int row = 0; row < b->rows; row += TILE) {
        int rows = b->rows - row < TILE ? b->rows - row : TILE;
        void *rest = normed + (size_t)rows * b->width;
        float *y[3];
        for (int i = 0; i < 3; i++) y[i] = b->y[i] + (size_t)row * b->w[i].columns;
        norm(rows, b->width, b->x + (size_t)row * b->width, b->norm, b->eps, normed);
        times(3, b->w, rows, normed, y, rest);
        for (int i = 0; i < 2; i++)
            for (int r = 0; r < rows; r++) {
                size_t place = (row + r) % b->table;
                turn(y[i] + (size_t)r * b->w[i].columns, b->w[i].columns / (2 * b->half), b->half,
                     b->cos + place * b->half, b->sin + place * 2 * b->half);
            }
    }
}

size_t block_after_space(const after *a) {
    int rows = a->rows < TILE ? a->rows : TILE, inner = a->w[3].depth;
    size_t kept = (size_t)rows * (2 * a->width + 2 * inner) * sizeof(float);
    int deepest = (int)most(most(a->width, inner), a->w[0].depth);
    return kept + for_products(rows, deepest);
}

void block_after(const after *a, void *space) {
    int width = a->width, inner = a->w[3].depth;
    for (int row = 0; row < a->rows; row += TILE) {
        int rows = a->rows - row < TILE ? a->rows - row : TILE;
        size_t n = (size_t)rows * width;
        float *normed = space, *down = normed + n, *gate = down + n;
        float *up = gate + (size_t)rows * inner;
        void *rest = up + (size_t)rows * inner;
        const float *x = a->x + (size_t)row * width;
        float *y = a->y + (size_t)row * width;
        times(1, a->w, rows, a->read + (size_t)row * a->w[0].depth, &y, rest);
        for (size_t k = 0; k < n; k++) y[k] += x[k];
        norm(rows, width, y, a->norm, a->eps, normed);
        times(2, a->w + 1, rows, normed, (float *[]){gate, up}, rest);
        gated((size_t)rows * inner, gate, up);
        times(1, a->w + 3, rows, gate, &down, rest);
        for (size_t k = 0; k < n; k++) y[k] += down[k];
    }
}

typedef struct {
    int batch, heads, kv_heads, queries, keys, width; /* width: of a head, a multiple of 8 */
    int causal;                                       /* whether a query sees no later key */
    float scale;
    const float *q, *k, *v;
    size_t q_at[3], k_at[3], v_at[3]; /* how far apart are two rows, heads, tokens */
    const uint8_t *mask;              /* whether a query sees a key; NULL: all */
    size_t mask_at[3];                /* how far apart two rows, queries, keys */
    float *y;                         /* (batch, heads, queries, width) */
} reading;

/* Write the keys that a query sees; return how many. */
static int seen_by(const reading *a, int row, int query, int *seen) {
    int n = 0, last = a->causal ? a->keys - a->queries + query + 1 : a->keys;
    const uint8_t *mask = a->mask ? a->mask + row * a->mask_at[0] + query * a->mask_at[1] : NULL;
    for (int key = 0; key < last; key++)
        if (!mask || mask[key * a->mask_at[2]]) seen[n++] = key;
    return n;
}

/* Turn scores into weights, and return their sum, as yet not divided by; beyond n there is room. */
static float softmax(int n, float *scores) {
    float largest = -INFINITY;
    for (int i = 0; i < n; i++) largest = scores[i] > largest ? scores[i] : largest;
    for (int i = n; i < n + LANES; i++) scores[i] = -INFINITY; /* e^-87 is nothing beside e^0 */
    floats sum = {0};
    for (int i = 0; i < n; i += LANES) {
        floats e = power_of_e(at(scores + i) - largest);
        put(scores + i, e), sum += e;
    }
    return added_up(sum);
}

enum { ABREAST = 8 }; /* vectors of a value that are added up in registers */

/* Write what a query reads of the n keys that it sees, `apart` numbers from one to the next. */
static void read_one(const float *q, const float *k, const float *v, size_t k_apart, size_t v_apart,
                     int n, const int *seen, float scale, float *scores, float *y, int width) {
    for (int i = 0; i < n; i++) {
        const float *key = k + seen[i] * k_apart;
        floats sum = {0};
        for (int d = 0; d < width; d += LANES) sum += at(q + d) * at(key + d);
        scores[i] = scale * added_up(sum);
    }
    float by = n ? 1 / softmax(n, scores) : 0;
    int d = 0;
    for (; d + ABREAST * LANES <= width; d += ABREAST * LANES) {
        floats sum[ABREAST] = {0};
        for (int i = 0; i < n; i++)
            for (int j = 0; j < ABREAST; j++)
                sum[j] += scores[i] * at(v + seen[i] * v_apart + d + j * LANES);
        for (int j = 0; j < ABREAST; j++) put(y + d + j * LANES, sum[j] * by);
    }
    for (; d < width; d += LANES) {
        floats sum = {0};
        for (int i = 0; i < n; i++) sum += scores[i] * at(v + seen[i] * v_apart + d);
        put(y + d, sum * by);
    }
}

/* An item: the queries of a token that share a head of keys. */
static void some_items(const void *told, int first, int end) {
    const reading *a = told;
    int each = a->heads / a->kv_heads, n = 0;
    int *seen = malloc(a->keys * sizeof(int) + ((size_t)a->keys + LANES) * sizeof(float));
    if (!seen) abort();
    float *scores = (float *)(seen + a->keys);
    for (int item = first; item < end; item++) {
        int kv = item % a->kv_heads, token = item / a->kv_heads;
        int row = token / a->queries, query = token % a->queries;
        if (kv == 0 || item == first) n = seen_by(a, row, query, seen);
        const float *k = a->k + row * a->k_at[0] + kv * a->k_at[1];
        const float *v = a->v + row * a->v_at[0] + kv * a->v_at[1];
        for (int head = kv * each; head < (kv + 1) * each; head++) {
            const float *q = a->q + row * a->q_at[0] + head * a->q_at[1] + query * a->q_at[2];
            float *y = a->y + (((size_t)row * a->heads + head) * a->queries + query) * a->width;
            read_one(q, k, v, a->k_at[2], a->v_at[2], n, seen, a->scale, scores, y, a->width);
        }
    }
    free(seen);
}

void block_read(const reading *a) {
    in_pieces(a->batch * a->queries * a->kv_heads, some_items, a);
}
