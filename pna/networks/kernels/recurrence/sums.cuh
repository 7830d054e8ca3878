// The gradients of all weights, sums over the nodes of a tile: a part of backward.cu, which see.

// Where the quantities of a tile's rows lie in shared memory, in three phases of a layer.
constexpr int D_R = 0, D_U = 1 * H, D_N = 2 * H, D_B = 3 * H, D_Z = 4 * H, X = 5 * H, Z = 6 * H, Y = 7 * H;  // the GRU's
constexpr int LEVEL = 4 * H, STEEP = 5 * H, TOP = 6 * H, LOW = 7 * H;  // the aggregates are at a · H, then coefficients
constexpr int SENT_P = 4 * H, SENT_Q = 5 * H, MESSAGE = 6 * H, GIVEN = 7 * H;  // the projections'
constexpr int D_Y = 8 * H, P = 9 * H, Q = 10 * H;                              // throughout
constexpr int STRIDE = 11 * H;  // 16 words modulo 32 keep banks apart

// c[k] += Aᵀ B_k, [16, 8] each, over 64 rows of the tile, the upper half for the warps 0 … 3 and the lower for the
// others: left(row, m, i) is A's number m = g + 8i of a row, right(row, k) that of B_k in column g.
template <int N, class Left, class Right>
INLINE void outer(float (*c)[4], Left left, Right right) {
  const int begin = threadIdx.x / 128 * 64 + thread_t();
#pragma unroll 2
  for (int row = begin; row < begin + 64; row += 8) {
    float high[4], low[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float value = left(row + (i >> 1) * 4, thread_g() + 8 * (i & 1), i & 1);
      high[i] = high_half(value);
      low[i] = value - high[i];
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
      float b0 = right(row, k), b1 = right(row + 4, k);
      float h0 = high_half(b0), h1 = high_half(b1);
      mma(c[k][0], c[k][1], c[k][2], c[k][3], low, h0, h1);
      mma(c[k][0], c[k][1], c[k][2], c[k][3], high, b0 - h0, b1 - h1);
      mma(c[k][0], c[k][1], c[k][2], c[k][3], high, h0, h1);
    }
  }
}

// What a warp sums. Dense matrices: r with x and z, u likewise, n with x and b with z, the mixing layer's; and biases,
// as one more column of ones. Of its tower: U's blocks; the projections' and U's own, with their biases.
struct Sums {
  float dense[6][4], combined[S == 3 ? 2 : 1][4], projections[1][4];
};

INLINE int role() { return threadIdx.x / 32 % 4; }

INLINE void clear(float (*c)[4], int count) {
#pragma unroll
  for (int k = 0; k < count; k++)
#pragma unroll
    for (int i = 0; i < 4; i++) c[k][i] = 0.0f;
}

template <int N>
INLINE void sum_dense_of(float (*c)[4], const float *tile, int of, const int (&columns)[N]) {
  outer<N>(
      c, [=](int row, int m, int) { return tile[row * STRIDE + of + m]; },
      [=](int row, int k) { return columns[k] < 0 ? 1.0f : tile[row * STRIDE + columns[k] + thread_g()]; });
}

INLINE void sum_dense(Sums &s, const float *tile) {
  if (role() < 2) {
    const int columns[5] = {X, X + 8, Z, Z + 8, -1};
    sum_dense_of<5>(s.dense, tile, role() == 0 ? D_R : D_U, columns);
  } else {
    const int one = role() == 2 ? X : Y;
    const int ones[3] = {one, one + 8, -1}, twos[3] = {Z, Z + 8, -1};
    sum_dense_of<3>(s.dense, tile, role() == 2 ? D_N : D_Z, ones);
    if (role() == 2) sum_dense_of<3>(s.dense + 3, tile, D_B, twos);
  }
}

// Rows 4a + f of A: feature f of aggregate a; columns 4s + o of B: output o of scaler s. The receiver's part of the
// messages, which shifts mean and extremes, is added here; the factors of a node without neighbours are zero.
INLINE void sum_combined(Sums &s, const float *tile, const float *factors, const float *bias) {
  const int of_tower = 4 * role() + (thread_g() & 3);
  const float *base = tile + of_tower;
  int shift[2];
  float weight[2], shifting[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int a = thread_g() / 4 + 2 * i;
    bool extreme = a == MAX || a == MIN;
    shift[i] = extreme && SWAP ? P : Q;
    weight[i] = a < A ? 1.0f : 0.0f;
    shifting[i] = extreme || a == MEAN ? 1.0f : 0.0f;
  }
  const float of_M = bias[of_tower];
  outer<(S == 3 ? 2 : 1)>(
      s.combined,
      [=](int row, int m, int i) {
        const float *here = base + row * STRIDE;
        float value = here[(m >> 2) * H] + shifting[i] * (here[shift[i]] + of_M);
        return A == 4 || weight[i] > 0 ? value : 0.0f;
      },
      [=](int row, int k) {
        int scaler = thread_g() / 4 + 2 * k;
        return scaler < S ? factors[scaler * ROWS + row] * base[row * STRIDE + D_Y] : 0.0f;
      });
}

// Rows of A: the gradients of the sender's and the receiver's part, of y, and of the messages, four features each;
// columns of B: the four features that the tower is given, and a one.
INLINE void sum_projections(Sums &s, const float *tile) {
  const int g = thread_g(), of_tower = 4 * role() + (g & 3);
  const float *base = tile + of_tower;
  outer<1>(
      s.projections,
      [=](int row, int m, int) {
        int which = m >> 2;
        return base[row * STRIDE + (which == 0 ? SENT_P : which == 1 ? SENT_Q : which == 2 ? D_Y : MESSAGE)];
      },
      [=](int row, int) { return g < 4 ? base[row * STRIDE + GIVEN] : g == 4 ? 1.0f : 0.0f; });
}

// ---- The sums' places in memory: one for each replica, tile and half of it ----

INLINE size_t place() { return ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * 2 + threadIdx.x / 128; }

INLINE void put_matrix(float *to, const float (*c)[4]) {  // [16, 16]
#pragma unroll
  for (int k = 0; k < 2; k++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      to[(thread_g() + (i >> 1) * 8) * H + 8 * k + 2 * thread_t() + (i & 1)] = c[k][i];
}

INLINE void put_bias(float *to, const float *c) {  // the column of ones
  if (thread_t() == 0) to[thread_g()] = c[0], to[thread_g() + 8] = c[2];
}

// to: r, u and n of x; r, u and b of z; then their biases.
INLINE void put_gru(float *to, const Sums &s) {
  to += place() * (6 * HH + 6 * H);
  float *bias = to + 6 * HH;
  if (role() < 2) {
    put_matrix(to + role() * HH, s.dense);
    put_matrix(to + (3 + role()) * HH, s.dense + 2);
    put_bias(bias + role() * H, s.dense[4]);
    put_bias(bias + (3 + role()) * H, s.dense[4]);
  } else if (role() == 2) {
    put_matrix(to + 2 * HH, s.dense);
    put_matrix(to + 5 * HH, s.dense + 3);
    put_bias(bias + 2 * H, s.dense[2]);
    put_bias(bias + 5 * H, s.dense[5]);
  }
}

// to: the mixing layer; the biases of M, U and the mixing layer; the towers' matrices.
INLINE void put_convolution(float *to, const Sums &s) {
  to += place() * (HH + 3 * H + COUNT * BLOCK);
  float *bias = to + HH, *T = bias + 3 * H;
  if (role() == 3) {
    put_matrix(to, s.dense);
    put_bias(bias + 2 * H, s.dense[2]);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    int m = thread_g() + (i >> 1) * 8, n = 2 * thread_t() + (i & 1), which = m / 4, f = m % 4;
    float value = s.projections[0][i];
    if (which < 3 && n < 4) T[which * BLOCK + f * H + 4 * role() + n] = value;
    if (which >= 2 && n == 4) bias[(which == 2 ? H : 0) + 4 * role() + f] = value;
#pragma unroll
    for (int k = 0; k < (S == 3 ? 2 : 1); k++) {
      int scaler = n / 4 + 2 * k;
      if (scaler < S && which < A)
        T[(COMBINED + scaler * A + which) * BLOCK + n % 4 * H + 4 * role() + f] = s.combined[k][i];
    }
  }
}
