// Gradients of all weights, sums over the nodes of a tile: a part of the backward pass, see layer.cuh.

// Offsets of the quantities of a tile's row in shared memory, in three phases of a layer. First, the GRU's:
constexpr int D_R = 0, D_U = 1 * H, D_N = 2 * H, D_B = 3 * H, D_Z = 4 * H, X = 5 * H, Z = 6 * H, Y = 7 * H;
// Second, aggregate a at a · H, then the coefficients that are in use. The moments are centred at the mean:
constexpr int STEEP = A * H, TOP = STEEP + (STD >= 0) * H, LOW = TOP + (MAX >= 0) * H, SOFTS = LOW + (MIN >= 0) * H;
constexpr int BEHIND = SOFTS + 2 * ((SOFTMAX >= 0) + (SOFTMIN >= 0)) * H, CENTRE = MEAN >= 0 ? MEAN * H : BEHIND;
constexpr int CURVES = BEHIND + (ORDER > 0 && MEAN < 0) * H, END = CURVES + (ORDER > 0 ? ORDER - 2 : 0) * H;
constexpr int SENT_P = 4 * H, SENT_Q = 5 * H, MESSAGE = 6 * H, GIVEN = 7 * H;  // third, the projections'
constexpr int STRIDE = PNA_PLANES * H;                                         // odd, to keep banks apart
constexpr int D_Y = STRIDE - 3 * H, P = D_Y + H, Q = P + H;                    // valid in all phases
// If the second phase does not fit, its last two coefficients overwrite aggregates that have been summed (LATE): so two
// blocks with five moments fit on a multiprocessor.
constexpr bool LATE = ORDER > 0 && END + OTHERS * H > D_Y;
constexpr int LEVEL = LATE ? (MEAN == 0) * H : END, LAST_CURVE = LATE ? LEVEL + (MEAN == 1 ? 2 : 1) * H : END - H;
static_assert(END + (LATE ? -H : OTHERS * H) <= D_Y && Y < D_Y, "the planes of a tile do not suffice");
static_assert(PNA_PLANES % 2 == 1 && !(LATE && (EXTREMES || SOFT)), "extremes read their aggregates to the end");

// A half, 64 rows, is written and summed by the same four warps: where no others read its rows, only these four wait
// for each other.
#ifndef EMULATED
INLINE void sync_half() { asm volatile("bar.sync %0, 128;" ::"r"(1 + threadIdx.x / 128) : "memory"); }
#endif

INLINE constexpr int tiles(int length, int size) { return (length + size - 1) / size; }

// Offset of column c, or tower t, within a plane of the rows that `outer` reads for this thread: see TURNED, layer.cuh.
INLINE int turned(int c) { return TURNED ? c ^ F * thread_t() : c; }

INLINE int turned_tower(int t) { return F * (TURNED ? t ^ thread_t() : t); }

// c[m N + n] += A_mᵀ B_n, [16, 8] each, summed over the 64 rows of this warp's half of the tile. left(row, j) is
// element 8j + g of A's row, j < 2M; right(row, n) is element 8n + g of B's.
template <int M, int N, class Left, class Right>
INLINE void outer(float (*c)[4], Left left, Right right) {
  const int begin = threadIdx.x / 128 * 64 + thread_t();
#pragma unroll(M == 1 ? 2 : 1)
  for (int row = begin; row < begin + 64; row += 8) {
    float high[M][4], low[M][4];
#pragma unroll
    for (int i = 0; i < 4 * M; i++) {
      float value = left(row + (i >> 1 & 1) * 4, 2 * (i >> 2) + (i & 1));
      high[i >> 2][i & 3] = high_half(value);
      low[i >> 2][i & 3] = value - high[i >> 2][i & 3];
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
      float b0 = right(row, n), b1 = right(row + 4, n);
      float h0 = high_half(b0), h1 = high_half(b1);
#pragma unroll
      for (int m = 0; m < M; m++) {
        float *d = c[m * N + n];
        mma(d[0], d[1], d[2], d[3], low[m], h0, h1);
        mma(d[0], d[1], d[2], d[3], high[m], b0 - h0, b1 - h1);
        mma(d[0], d[1], d[2], d[3], high[m], h0, h1);
      }
    }
  }
}

// A warp sums one of four dense parts: r with x and z; u with x and z; n with x, and b with z; the mixing layer. Biases
// come from one more column, of ones. It also sums for one tower: U's blocks, A F by S F; and the projections and U's
// own block, with their biases.
constexpr int COLUMNS = tiles(H, 8), DENSE_M = tiles(H, 16), BOTH_N = tiles(2 * H + 1, 8), ONE_N = tiles(H + 1, 8);
constexpr int DENSE = DENSE_M * (!GRU ? ONE_N + 2 : BOTH_N > 2 * ONE_N ? BOTH_N : 2 * ONE_N);
constexpr int COMBINED_M = tiles(A * F, 16), COMBINED_N = tiles(S * F, 8);
constexpr int PROJECTIONS_M = tiles(4 * F, 16), PROJECTIONS_N = tiles(F + 1, 8);

struct Sums {
  float dense[DENSE][4], combined[COMBINED_M * COMBINED_N][4], projections[PROJECTIONS_M * PROJECTIONS_N][4];
};

// Part that the warp sums. The first warp has the nodes with the most neighbours (tiles.py): in PNA with a GRU, it and
// the other warp on its scheduler, equal modulo four, get the least to sum, the mixing layer. Elsewhere the two halves
// give part 3 to warps of different schedulers.
INLINE int role() {
  int warp = threadIdx.x / 32;
  return GRU && TOWERS > 0 && !GIN ? (warp + 3) % 4 : warp % 4 ^ (warp / 4 & warp / 2 & 1);
}

template <int COUNT>
INLINE void clear(float (&c)[COUNT][4]) {
#pragma unroll
  for (int i = 0; i < 4 * COUNT; i++) c[i >> 2][i & 3] = 0.0f;
}

// Sums the outer products of plane `of` with plane `one`, with plane `two` if BOTH, and with ones.
template <int N, bool BOTH>
INLINE void sum_dense_of(float (*c)[4], const float *tile, int of, int one, int two = 0) {
  int columns[N];
#pragma unroll
  for (int n = 0; n < N; n++) {
    int column = 8 * n + thread_g();
    columns[n] = column < H ? one + turned(column) : BOTH && column < 2 * H ? two + turned(column - H) : -1;
  }
  outer<DENSE_M, N>(
      c, [=](int row, int j) { return tile[row * STRIDE + of + turned(8 * j + thread_g())]; },
      [=](int row, int n) { return columns[n] < 0 ? 1.0f : tile[row * STRIDE + columns[n]]; });
}

// Sums a plane over the nodes: its outer product with ones.
INLINE void sum_bias(float (*c)[4], const float *tile, int plane) {
  outer<DENSE_M, 1>(
      c, [=](int row, int j) { return tile[row * STRIDE + plane + 8 * j + thread_g()]; },
      [](int, int) { return 1.0f; });
}

INLINE void sum_dense(Sums &s, const float *tile) {
  if ((GCN || GAT) && role() == 3) {  // the gradient of h with the convolution's input, and the biases
    sum_dense_of<ONE_N, false>(s.dense, tile, D_Y, X);
#pragma unroll
    for (int k = 0; k < BIASES; k++) sum_bias(s.dense + DENSE_M * (ONE_N + k), tile, GCN ? D_Z : k == 0 ? Y : Q);
  } else if (GRU && role() < 2) {
    sum_dense_of<BOTH_N, true>(s.dense, tile, role() == 0 ? D_R : D_U, X, Z);
  } else if (GRU || role() == 3) {
    sum_dense_of<ONE_N, false>(s.dense, tile, role() == 2 ? D_N : D_Z, role() == 2 ? X : Y);
    if (role() == 2) sum_dense_of<ONE_N, false>(s.dense + DENSE_M * ONE_N, tile, D_B, Z);
  }
}

// Sums for U's blocks. Row a F + f of A is feature f of aggregate a; column s F + o of B is output o of scaler s. The
// receiver's part of the messages, which shifts mean, extremes and their soft forms, is added here. Nodes without
// neighbours have factors of zero.
INLINE void sum_combined(Sums &s, const float *tile, const float *factors, const float *bias) {
  const float *base = tile + turned_tower(role());
  int at[2 * COMBINED_M], shift[2 * COMBINED_M], output[COMBINED_N], scaler[COMBINED_N];
  float of_M[2 * COMBINED_M], shifting[2 * COMBINED_M];
#pragma unroll
  for (int j = 0; j < 2 * COMBINED_M; j++) {
    int a = (8 * j + thread_g()) / F, f = (8 * j + thread_g()) % F;
    bool extreme = a == MAX || a == MIN;
    at[j] = (a < A ? a : 0) * H + f;
    shift[j] = (extreme && SWAP ? P : Q) + f;
    of_M[j] = bias[F * role() + f];
    shifting[j] = extreme || a == MEAN || a == SOFTMAX || a == SOFTMIN ? 1.0f : 0.0f;
  }
#pragma unroll
  for (int n = 0; n < COMBINED_N; n++) {
    scaler[n] = (8 * n + thread_g()) / F < S ? (8 * n + thread_g()) / F : S - 1;  // further columns are not written
    output[n] = D_Y + (8 * n + thread_g()) % F;
  }
  outer<COMBINED_M, COMBINED_N>(
      s.combined,
      [=](int row, int j) {
        const float *here = base + row * STRIDE;
        return here[at[j]] + shifting[j] * (here[shift[j]] + of_M[j]);
      },
      [=](int row, int n) { return factors[scaler[n] * ROWS + row] * base[row * STRIDE + output[n]]; });
}

// Sums for the projections. Rows of A: gradients of the receiver's part, of the sender's part, of y and of the
// messages, F features each. Columns of B: the tower's F input features, then ones, of which only the first is written.
INLINE void sum_projections(Sums &s, const float *tile) {
  const float *base = tile + turned_tower(role());
  int at[2 * PROJECTIONS_M];
#pragma unroll
  for (int j = 0; j < 2 * PROJECTIONS_M; j++) {
    int which = (8 * j + thread_g()) / F, f = (8 * j + thread_g()) % F;
    at[j] = (which == RECEIVER ? SENT_Q : which == SENDER ? SENT_P : which == 2 ? D_Y : MESSAGE) + f;
  }
  outer<PROJECTIONS_M, PROJECTIONS_N>(
      s.projections, [=](int row, int j) { return base[row * STRIDE + at[j]]; },
      [=](int row, int n) {
        int column = 8 * n + thread_g();
        return column < F ? base[row * STRIDE + GIVEN + column] : 1.0f;
      });
}

// ---- Writing the sums: one place in memory for each replica, tile and 64 rows of it ----

INLINE size_t place() { return ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * (WARPS / 4) + threadIdx.x / 128; }

// Calls put(row, column, value) for each element of c that the thread holds.
template <int M, int N, class Put>
INLINE void each(const float (*c)[4], Put put) {
#pragma unroll
  for (int k = 0; k < M * N; k++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      put(k / N * 16 + thread_g() + (i >> 1) * 8, k % N * 8 + 2 * thread_t() + (i & 1), c[k][i]);
}

// With several launches, each adds to the sums of those before it. The atomic addition is there because it need not
// wait for the old value; no other thread of a launch adds to the same place, so the order is that of the launches.
INLINE void put_sum(float *to, float value) {
  if (SPLIT) atomicAdd(to, value);
  else *to = value;
}

// Writes the sums of sum_dense_of: one or two matrices [H, H], and a bias.
template <int N, bool BOTH>
INLINE void put_dense(const float (*c)[4], float *one, float *bias, float *two = nullptr, float *same_bias = nullptr) {
  each<DENSE_M, N>(c, [=](int row, int column, float value) {
    if (row >= H) return;
    if (column < H) put_sum(one + row * H + column, value);
    else if (BOTH && column < 2 * H) put_sum(two + row * H + column - H, value);
    else if (column == (BOTH ? 2 * H : H)) {
      put_sum(bias + row, value);
      if (BOTH) put_sum(same_bias + row, value);
    }
  });
}

INLINE void put_bias(float *to, const float (*c)[4]) {
  each<DENSE_M, 1>(c, [=](int row, int column, float value) {
    if (row < H && column == 0) put_sum(to + row, value);
  });
}

// Writes the GRU's gradients: matrices r, u and n for x; r, u and b for z; then their biases.
INLINE void put_gru(float *to, const Sums &s) {
  to += place() * (6 * HH + 6 * H);
  float *bias = to + 6 * HH;
  const int k = role();
  if (k < 2) {
    put_dense<BOTH_N, true>(s.dense, to + k * HH, bias + k * H, to + (3 + k) * HH, bias + (3 + k) * H);
  } else if (k == 2) {
    put_dense<ONE_N, false>(s.dense, to + 2 * HH, bias + 2 * H);
    put_dense<ONE_N, false>(s.dense + DENSE_M * ONE_N, to + 5 * HH, bias + 5 * H);
  }
}

// Start of the gradients of convolution k.
INLINE float *convolution_of(float *to, int k) {
  return to + (place() * CONVOLUTIONS + (k < CONVOLUTIONS ? k : CONVOLUTIONS - 1)) * (HH + BIASES * H + TOWERS);
}

// Writes the gradients of a convolution: its dense matrix, its biases and the towers' matrices, as in layer.cuh.
INLINE void put_convolution(float *to, int k, const Sums &s) {
  to = convolution_of(to, k);
  float *bias = to + HH, *T = bias + BIASES * H + F * role();
  if (GCN || GAT) {
    if (role() != 3) return;
    each<DENSE_M, ONE_N>(s.dense, [=](int row, int column, float value) {
      if (row < H && column < H) to[row * H + column] = value;
    });
#pragma unroll
    for (int k = 0; k < BIASES; k++) put_bias(bias + k * H, s.dense + DENSE_M * (ONE_N + k));
    return;
  }
  if (role() == 3) put_dense<ONE_N, false>(s.dense, to, bias + 2 * H);
  each<PROJECTIONS_M, PROJECTIONS_N>(s.projections, [=](int row, int column, float value) {
    int which = row / F, f = row % F;
    if (which < 3 && column < F) T[which * BLOCK + f * H + column] = value;
    if ((which == 2 || which == 3) && column == F) bias[(which == 2 ? H : 0) + F * role() + f] = value;
  });
  each<COMBINED_M, COMBINED_N>(s.combined, [=](int row, int column, float value) {
    int a = row / F, f = row % F, scaler = column / F, o = column % F;
    if (a < A && scaler < S) T[(COMBINED + scaler * A + a) * BLOCK + o * H + f] = value;
  });
}
