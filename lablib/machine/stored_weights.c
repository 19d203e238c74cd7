/* Products of rows with weights as they are stored: y = x W', W of whole numbers of 4 or 8 bits.

   A token reads every weight of a model, so it takes as long as they are large. Here they stay as
   small as on the disk: each of `group` neighbours along a row of W is

       w[c][k] = scale[c][g] code[c][k] + minimum[c][g],     g = k / group,

   and their sum of products with x comes apart into sums of whole numbers:

       y[c] = sum over g of  scale[c][g] (sum of code x) + minimum[c][g] (sum of x).

   For that x is rounded to 16 bits, by itself in each group: x[k] = step[g] q[k] nearly, where q is
   whole, -32767 to 32767, and step[g] the largest |x| of the group / 32767. Then

       y[c] = sum over g of  scale step (sum of code q) + minimum (step (sum of q)),

   where both inner sums are exact (255 * 32767 * 256 < 2^31, and 256 * 32767 < 2^24). They have no
   order, so that a processor may take them in any; and the outer one is always taken in the order
   of g. So a row's numbers are the same alone and among any number of others, on every kernel.

   How far off can they be? Rounding moves each x by half a step, 0.51 with what float32 loses in
   the division; and each of the 2 n_groups terms is rounded a few times, by u = 2^-24 of its size:

       |error| <= sum over k of  0.51 step |w| + (2 n_groups + 8) u |x| (|scale| code + |minimum|),

   as long as none of these sums, nor a group's of |x|, leaves float32's range (3.4e38).
   A step is 1/32767 of the largest number of its group: of 8 bits, as others take them, it would be
   258 times as long. A group below 2^-100 counts as zeros. One NaN or infinity in a row makes all
   its numbers NaN.

   `stored_naive` is this definition. What makes the other fast: 16 columns of W lie in the lanes
   of two vectors, so nothing is added across lanes; W comes from memory once for all rows; and
   threads share the columns. */

#include "team.c"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

enum { LANES = 8 };       /* numbers in a vector of 32 bytes */
enum { HALVES = 2 };      /* vectors side by side: what they are multiplied by is loaded once */
enum { COLUMNS = 16 };    /* of W in a strip, in these lanes: 64 bytes, a line of a cache */
enum { PAIR = 2 };        /* codes of a lane, neighbours along k: one instruction adds two products */
#if defined(__AVX512VL__) || defined(__aarch64__)
enum { UP = 8 };          /* rows of x at a time, whose sums stay in 32 registers */
#else
enum { UP = 4 };          /* in 16 */
#endif
enum { CHAINS = 2 };      /* sums of a row in turns, as an addition waits for the one before it; */
enum { ENOUGH = 2 };      /* more rows than these are turns enough */
enum { FEW = 16 };        /* rows, for which codes are not taken apart beforehand */
enum { AHEAD = 4096 };    /* bytes that are asked for before they are needed */
enum { LARGEST = 32767 }; /* of q */

typedef float floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint16_t words __attribute__((vector_size(32), aligned(2), may_alias));

typedef struct {
    int rows, columns, depth;
    int bits, group; /* 4 or 8; a multiple of 16 up to 256, and depth is one of it */
    int narrow;      /* whether scales and minima are float16, not float32 */
    const float *x;  /* (rows, depth) */
    /* (strips, depth / per, COLUMNS, PAIR) words of `per / PAIR` codes each, per = 32 / bits: in word
       [c][j] of block b the n-th code, from the lowest bits, is W's at k = per b + 2 n + j. */
    const uint16_t *codes;
    const void *scales, *minima; /* (strips, depth / group, COLUMNS) */
    float *y;                     /* (rows, columns) */
} product;

/* --- the definition -------------------------------------------------------------------------- */

static int code_of(const product *p, int column, int k) {
    int per = PAIR * 16 / p->bits, blocks = p->depth / per;
    size_t block = (size_t)(column / COLUMNS) * blocks + k / per;
    int word = p->codes[(block * COLUMNS + column % COLUMNS) * PAIR + k % PAIR];
    return word >> k % per / PAIR * p->bits & ((1 << p->bits) - 1);
}

/* Return the i-th of scales or minima. */
static float number_at(const product *p, const void *numbers, size_t i) {
    if (!p->narrow) return ((const float *)numbers)[i];
    uint32_t narrow = ((const uint16_t *)numbers)[i], sign = (narrow & 0x8000) << 16;
    uint32_t bits = (narrow & 0x7fff) << 13; /* without its exponent's other bias */
    float number;
    memcpy(&number, &bits, 4);
    number *= 0x1p112f;
    memcpy(&bits, &number, 4);
    bits |= sign | ((narrow & 0x7c00) == 0x7c00 ? 0x7f800000 : 0); /* infinities, and none */
    memcpy(&number, &bits, 4);
    return number;
}

/* x as whole numbers: (rows, depth), and of each group its step and step * (sum of q). */
typedef struct {
    int16_t *q;
    float *step, *sum;
} rounded;

static void round_group(const float *x, int group, int16_t *q, float *step, float *sum) {
    uint32_t most = 0; /* the bits of |x| are in the order of |x|, then infinity, then NaN */
    for (int k = 0; k < group; k++) {
        uint32_t bits;
        memcpy(&bits, x + k, 4);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    float top;
    memcpy(&top, &most, 4);
    int is_finite = most < 0x7f800000, is_zero = is_finite && top < 0x1p-100f, total = 0;
    float back = is_finite && !is_zero ? LARGEST / top : 0;
    for (int k = 0; k < group; k++) {
        float near = is_finite ? x[k] * back : 0;
        q[k] = (int16_t)(int)((near + 0x1.8p23f) - 0x1.8p23f); /* there floats are whole numbers */
        total += q[k];
    }
    *step = is_zero ? 0 : is_finite ? top / LARGEST : top - top;
    *sum = *step * (float)total;
}

/* Round rows of x, into `space`: its first bytes are theirs. */
static rounded round_rows(const float *x, int rows, int depth, int group, void *space) {
    size_t n = (size_t)rows * depth, groups = n / group;
    rounded to = {(int16_t *)space, NULL, NULL};
    to.step = (float *)((char *)space + (n * sizeof(int16_t) + 31) / 32 * 32);
    to.sum = to.step + groups;
    for (size_t g = 0; g < groups; g++)
        round_group(x + g * group, group, to.q + g * group, to.step + g, to.sum + g);
    return to;
}

/* Return how many bytes of `space` the products below need for x. */
size_t stored_space(int rows, int depth, int group) {
    size_t n = (size_t)rows * depth;
    return (n * sizeof(int16_t) + 31) / 32 * 32 + 2 * n / group * sizeof(float);
}

void stored_naive(const product *p, void *space) {
    rounded x = round_rows(p->x, p->rows, p->depth, p->group, space);
    int groups = p->depth / p->group;
    for (int row = 0; row < p->rows; row++)
        for (int c = 0; c < p->columns; c++) {
            float y = 0;
            for (int g = 0; g < groups; g++) {
                size_t at = (size_t)row * groups + g;
                size_t own = ((size_t)(c / COLUMNS) * groups + g) * COLUMNS + c % COLUMNS;
                int sum = 0;
                for (int k = g * p->group; k < (g + 1) * p->group; k++)
                    sum += code_of(p, c, k) * x.q[(size_t)row * p->depth + k];
                y += number_at(p, p->scales, own) * x.step[at] * (float)sum;
                y += number_at(p, p->minima, own) * x.sum[at];
            }
            p->y[(size_t)row * p->columns + c] = y;
        }
}

/* --- the same, fast --------------------------------------------------------------------------- */

#define INLINE static inline __attribute__((always_inline))

/* Return sums + codes[..][0] q[0] + codes[..][1] q[1], in each lane. */
INLINE ints add_pair(ints sums, words codes, const int16_t *q) {
    int32_t pair;
    memcpy(&pair, q, sizeof pair);
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    return (ints)_mm256_dpwssd_epi32((__m256i)sums, (__m256i)codes, _mm256_set1_epi32(pair));
#elif defined(__AVX2__)
    return sums + (ints)_mm256_madd_epi16((__m256i)codes, _mm256_set1_epi32(pair));
#else
    ints both = (ints)codes;
    return sums + (both & 0xffff) * q[0] + (both >> 16) * q[1]; /* codes are below 2^15 */
#endif
}

/* Return LANES of scales or minima, from the i-th on. */
INLINE floats numbers_at(const product *p, const void *numbers, size_t i) {
    if (!p->narrow) return *(const floats *)((const float *)numbers + i);
#if defined(__F16C__)
    return (floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)numbers + i)));
#else
    floats found;
    for (int lane = 0; lane < LANES; lane++) found[lane] = number_at(p, numbers, i + lane);
    return found;
#endif
}

/* Put the numbers of some rows in the columns of a strip. In the words of `codes` lie codes of so
   many bits: 16 where they are unpacked. */
INLINE void tile(const product *p, const rounded *x, int strip, int row, const uint16_t *codes,
                 const int bits, const int rows) {
    const int per = PAIR * 16 / bits, chains = rows > ENOUGH ? 1 : CHAINS;
    int groups = p->depth / p->group;
    const int16_t *q = x->q + (size_t)row * p->depth;
    const float *step = x->step + (size_t)row * groups, *sum = x->sum + (size_t)row * groups;
    floats y[HALVES][UP] = {0};
    for (int g = 0; g < groups; g++) {
        ints sums[CHAINS][HALVES][UP] = {0};
        for (int k = g * p->group; k < (g + 1) * p->group; k += per) {
            const words *packed = (const words *)codes;
            if (bits < 16) __builtin_prefetch((const char *)codes + AHEAD, 0, 2);
            codes += COLUMNS * PAIR;
            for (int n = 0; n < per / PAIR; n++)
                for (int half = 0; half < HALVES; half++) {
                    words apart = packed[half] >> n * bits & (uint16_t)((1 << bits) - 1);
                    ints *chain = sums[n % chains][half];
                    for (int i = 0; i < rows; i++)
                        chain[i] = add_pair(chain[i], apart, q + (size_t)i * p->depth + k + PAIR * n);
                }
        }
        for (int half = 0; half < HALVES; half++) {
            size_t own = ((size_t)strip * groups + g) * COLUMNS + half * LANES;
            floats scale = numbers_at(p, p->scales, own), minimum = numbers_at(p, p->minima, own);
            for (int i = 0; i < rows; i++) {
                ints whole = sums[0][half][i] + sums[1][half][i];
                floats total = __builtin_convertvector(whole, floats);
                y[half][i] += scale * step[(size_t)i * groups + g] * total;
                y[half][i] += minimum * sum[(size_t)i * groups + g];
            }
        }
    }
    for (int half = 0; half < HALVES; half++) {
        int column = strip * COLUMNS + half * LANES, left = p->columns - column;
        left = left < 0 ? 0 : left < LANES ? left : LANES;
        for (int i = 0; i < rows; i++)
            memcpy(p->y + (size_t)(row + i) * p->columns + column, &y[half][i], left * sizeof(float));
    }
}

/* At most UP, and known to the compiler, so that sums are registers. */
#define ROWS(n) ((n) < UP ? (n) : UP)

INLINE void all_rows(const product *p, const rounded *x, int strip, const uint16_t *codes,
                     const int bits) {
    int row = 0;
    for (; row + UP <= p->rows; row += UP) tile(p, x, strip, row, codes, bits, UP);
    switch (p->rows - row) {
        case 7: tile(p, x, strip, row, codes, bits, ROWS(7)); break;
        case 6: tile(p, x, strip, row, codes, bits, ROWS(6)); break;
        case 5: tile(p, x, strip, row, codes, bits, ROWS(5)); break;
        case 4: tile(p, x, strip, row, codes, bits, ROWS(4)); break;
        case 3: tile(p, x, strip, row, codes, bits, ROWS(3)); break;
        case 2: tile(p, x, strip, row, codes, bits, ROWS(2)); break;
        case 1: tile(p, x, strip, row, codes, bits, ROWS(1));
    }
}

/* Take the codes of a strip apart, once for many rows: into words of one code each. */
INLINE void unpack(const product *p, const uint16_t *codes, uint16_t *apart, const int bits) {
    for (int block = 0; block < p->depth * bits / (PAIR * 16); block++, codes += COLUMNS * PAIR) {
        const words *packed = (const words *)codes;
        __builtin_prefetch((const char *)codes + AHEAD, 0, 2);
        for (int n = 0; n < 16 / bits; n++, apart += COLUMNS * PAIR)
            for (int half = 0; half < HALVES; half++)
                ((words *)apart)[half] = packed[half] >> n * bits & (uint16_t)((1 << bits) - 1);
    }
}

INLINE void some_strips(const product *p, const rounded *x, int strip, int end, const int bits) {
    size_t size = (size_t)p->depth * COLUMNS * bits / 16; /* words of a strip */
    uint16_t *apart = p->rows > FEW ? malloc((size_t)p->depth * COLUMNS * sizeof(uint16_t)) : NULL;
    for (; strip < end; strip++) {
        const uint16_t *codes = p->codes + strip * size;
        if (apart) {
            unpack(p, codes, apart, bits);
            all_rows(p, x, strip, apart, 16);
        } else {
            all_rows(p, x, strip, codes, bits);
        }
    }
    free(apart);
}

typedef struct {
    const product *p;
    const rounded *x;
} factors;

static void part(const void *told, int strip, int end) {
    const factors *of = told;
    if (of->p->bits == 4)
        some_strips(of->p, of->x, strip, end, 4);
    else
        some_strips(of->p, of->x, strip, end, 8);
}

/* Multiply by rows that are rounded already, in groups of this weight's. */
static void multiply(const product *p, const rounded *x) {
    factors of = {p, x};
    in_pieces((p->columns + COLUMNS - 1) / COLUMNS, part, &of);
}

void stored_product(const product *p, void *space) {
    rounded x = round_rows(p->x, p->rows, p->depth, p->group, space);
    multiply(p, &x);
}
