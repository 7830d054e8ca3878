// All layers of a recurrent PNA network with H = 16 features in four towers, forward in one kernel and backward in one:
// equations 7 and 8 with linear M and U, the mixing layer, the GRU. Compiled at run time, one kernel and one
// configuration at a time. recurrence_forward.py and recurrence_backward.py compute the same layer by layer, in Triton.
//
// A block has a tile of whole graphs, 128 rows of nodes (pna/kernels/tiles.py), and takes it through all layers: what
// neighbours need of each other lies in shared memory, and only what the backward pass reads again goes to memory.
//
// A warp has 16 nodes: its thread (g, t) has the features 4t … 4t + 3 of the nodes g and g + 8: those of tower t. So
// the products of a tower, 4 × 4, are a thread's own. Dense products, of the GRU and of the mixing layer, are taken by
// the tensor cores in TF32, three for each so that float32's precision stays; they want the left operand and leave the
// result just where the threads have them if the features are numbered suitably. Only gradients of weights, which sum
// over nodes, need activations across threads: through shared memory, where each warp sums for some of the weights.

#define FORWARD 0
#define BACKWARD 1

constexpr int WARPS = 8, ROWS = 16 * WARPS;  // of a tile
constexpr int RESIDENT = PNA_RESIDENT;       // blocks that a multiprocessor shall hold
constexpr int H = 16, HH = H * H, BLOCK = 4 * H;  // numbers of a dense matrix, and of the four blocks of a towers' one
constexpr float SLOPE = 0.01f;                    // of LeakyReLU
constexpr int A = PNA_A, S = PNA_S;
constexpr int MEAN = PNA_MEAN, STD = PNA_STD, MAX = PNA_MAX, MIN = PNA_MIN, SUM = PNA_SUM;  // -1 if there is none
constexpr bool SWAP = PNA_SWAP;                                                             // D5
constexpr float EPS = PNA_EPS, INF = 3.4e38f;
constexpr bool MEANS = MEAN >= 0 || SUM >= 0, EXTREMES = MAX >= 0 || MIN >= 0, OTHERS = MEANS || STD >= 0;
constexpr int SENDER = 0, RECEIVER = 1, OWN = 2, COMBINED = 3, COUNT = COMBINED + S * A;  // of the towers' matrices

#ifndef EMULATED
extern __shared__ float4 shared_memory[];

INLINE void prefetch(const float *place) { asm volatile("prefetch.global.L2 [%0];" ::"l"(place)); }
#endif

INLINE int warp_row() { return (threadIdx.x >> 5) * 16 + thread_g(); }  // of the first of the thread's two nodes

// ---- Activations ----------------------------------------------------------------------------------------------------

struct Rows {
  float v[8];  // four features of node g, then of node g + 8
};

INLINE Rows both(float4 f) {
  Rows rows;
  set4(rows.v, f);
  set4(rows.v + 4, f);
  return rows;
}

INLINE Rows zeros() { return both(make_float4(0, 0, 0, 0)); }

// The thread's part of an array with `stride` numbers for each row of the tile.
INLINE Rows get(const float *base, int stride = H) {
  Rows rows;
  base += warp_row() * stride + 4 * thread_t();
  set4(rows.v, get4(base));
  set4(rows.v + 4, get4(base + 8 * stride));
  return rows;
}

INLINE void put(float *base, const Rows &rows, int stride = H) {
  base += warp_row() * stride + 4 * thread_t();
  put4(base, rows.v);
  put4(base + 8 * stride, rows.v + 4);
}

INLINE Rows bias_rows(const float *bias) { return both(get4(bias + 4 * thread_t())); }

// The same of an array [V, H] by nodes; zeros in a row that has none.
INLINE Rows of_nodes(const float *base, const int *node) {
  Rows rows;
#pragma unroll
  for (int i = 0; i < 2; i++)
    set4(rows.v + 4 * i, node[i] < 0 ? make_float4(0, 0, 0, 0) : get4(base + (size_t)node[i] * H + 4 * thread_t()));
  return rows;
}

// The input features, at most four: for the GRU they are the first of H, and for the convolution every tower's.
struct Input {
  Rows state, convolution;
};

INLINE Input input_of(const float *x, const int *node) {
  Input input;
#pragma unroll
  for (int i = 0; i < 2; i++)
    set4(input.convolution.v + 4 * i, node[i] < 0 ? make_float4(0, 0, 0, 0) : get4(x + (size_t)node[i] * H));
#pragma unroll
  for (int i = 0; i < 8; i++) input.state.v[i] = thread_t() == 0 ? input.convolution.v[i] : 0.0f;
  return input;
}

// ---- Products -------------------------------------------------------------------------------------------------------

INLINE Split split(const Rows &a) { return split(a.v); }

// sum += a Mᵀ, M [out, in] in shared memory.
INLINE void product(Rows &sum, const Split &a, const float *M) {
#pragma unroll
  for (int n = 0; n < 2; n++) {
    float *c = sum.v + 2 * n;
    int g = thread_g();
    float w[4], high[4], low[4];
    set4(w, get4(M + (4 * (g >> 1) + 2 * n + (g & 1)) * H + 4 * thread_t()));
#pragma unroll
    for (int i = 0; i < 4; i++) {
      high[i] = high_half(w[i]);
      low[i] = w[i] - high[i];
    }
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      float a_high[4] = {a.high[k], a.high[k + 4], a.high[k + 1], a.high[k + 5]};
      float a_low[4] = {a.low[k], a.low[k + 4], a.low[k + 1], a.low[k + 5]};
      mma(c[0], c[1], c[4], c[5], a_low, high[k], high[k + 1]);
      mma(c[0], c[1], c[4], c[5], a_high, low[k], low[k + 1]);
      mma(c[0], c[1], c[4], c[5], a_high, high[k], high[k + 1]);
    }
  }
}

// sum += a Wᵀ with a block of each tower, W [out, tower, in]; and sum += a W.
INLINE void towers(Rows &sum, const Rows &a, const float *W) {
#pragma unroll
  for (int out = 0; out < 4; out++) {
    float w[4];
    set4(w, get4(W + out * H + 4 * thread_t()));
#pragma unroll
    for (int i = 0; i < 8; i++) sum.v[i / 4 * 4 + out] += w[i % 4] * a.v[i];
  }
}

INLINE void towers_back(Rows &sum, const Rows &a, const float *W) {
#pragma unroll
  for (int out = 0; out < 4; out++) {
    float w[4];
    set4(w, get4(W + out * H + 4 * thread_t()));
#pragma unroll
    for (int i = 0; i < 8; i++) sum.v[i] += w[i % 4] * a.v[i / 4 * 4 + out];
  }
}

INLINE void load(float *to, const float *from, int count) {
  for (int i = threadIdx.x; i < count / 4; i += 32 * WARPS) ((float4 *)to)[i] = ((const float4 *)from)[i];
}

INLINE void load_transposed(float *to, const float *from, int matrices) {
  for (int i = threadIdx.x; i < matrices * HH; i += 32 * WARPS) {
    int out = i / H % H, in = i % H;
    to[i - i % HH + in * H + out] = from[i];
  }
}

// ---- The GRU --------------------------------------------------------------------------------------------------------

struct Gates {
  Rows r, u, n, b;
};

INLINE Gates gru(const Split &x, const Split &z, const float *W, const float *bias) {
  Gates s = {bias_rows(bias), bias_rows(bias + H), bias_rows(bias + 2 * H), bias_rows(bias + 5 * H)};
  Rows more_r = bias_rows(bias + 3 * H), more_u = bias_rows(bias + 4 * H);
  product(s.r, x, W);
  product(s.u, x, W + HH);
  product(s.n, x, W + 2 * HH);
  product(more_r, z, W + 3 * HH);
  product(more_u, z, W + 4 * HH);
  product(s.b, z, W + 5 * HH);
#pragma unroll
  for (int i = 0; i < 8; i++) {
    s.r.v[i] = sigmoid(s.r.v[i] + more_r.v[i]);
    s.u.v[i] = sigmoid(s.u.v[i] + more_u.v[i]);
    s.n.v[i] = tanh_of(s.n.v[i] + s.r.v[i] * s.b.v[i]);
  }
  return s;
}

// ---- Neighbourhoods -------------------------------------------------------------------------------------------------

struct Nodes {  // the thread's two: which they are, or -1; their degrees; their neighbours' rows, four in a word
  int node[2], degree[2];
  const unsigned *list[2];
};

INLINE Nodes nodes_of(const int *node, const int *lists, const unsigned *words) {
  Nodes nodes;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int row = blockIdx.x * ROWS + warp_row() + 8 * i;
    nodes.node[i] = node[row];
    nodes.list[i] = words + lists[2 * row];
    nodes.degree[i] = lists[2 * row + 1];
  }
  return nodes;
}

INLINE int neighbour(unsigned four, int n) { return four >> 8 * n & 255; }

struct Gathered {  // of the senders' parts of the messages, without the receiver's; how often an extreme is taken
  Rows mean, deviation, top, low, tops, lows;
};

// Sums are of differences to the first neighbour, so that the variance does not cancel. A list repeats its last
// neighbour to the end of the word: only sums and counts would notice.
template <bool COUNTS, int STRIDE>
INLINE void gather_node(Gathered &all, int i, const float *p, const float *q, const unsigned *list, int degree) {
  float first[4] = {}, total[4] = {}, squares[4] = {}, top[4], low[4], tops[4] = {}, lows[4] = {};
#pragma unroll
  for (int c = 0; c < 4; c++) top[c] = -INF, low[c] = INF;
  for (int k = 0; k < degree; k += 2) {
    unsigned two = list[k >> 2] >> 8 * (k & 2);
    float m[2][4], e[2][4];
#pragma unroll
    for (int n = 0; n < 2; n++) {
      int j = neighbour(two, n) * STRIDE + 4 * thread_t();
      if (OTHERS || !SWAP) set4(m[n], get4(p + j));
      if (EXTREMES && SWAP) set4(e[n], get4(q + j));
    }
    if (k == 0 && OTHERS)
#pragma unroll
      for (int c = 0; c < 4; c++) first[c] = m[0][c];
    bool second = k + 1 < degree;
#pragma unroll
    for (int c = 0; c < 4; c++) {
      if (OTHERS) {
        float difference = m[0][c] - first[c], other = second ? m[1][c] - first[c] : 0.0f;
        total[c] += difference + other;
        squares[c] += difference * difference + other * other;
      }
      if (EXTREMES) {
        float one = SWAP ? e[0][c] : m[0][c], two = SWAP ? e[1][c] : m[1][c];
        float larger = fmaxf(one, two), smaller = fminf(one, two);
        if (COUNTS) {
          float many = second && one == two ? 2.0f : 1.0f;
          tops[c] = larger > top[c] ? many : tops[c] + (larger == top[c] ? many : 0.0f);
          lows[c] = smaller < low[c] ? many : lows[c] + (smaller == low[c] ? many : 0.0f);
        }
        top[c] = fmaxf(top[c], larger);
        low[c] = fminf(low[c], smaller);
      }
    }
  }
  float share = 1.0f / fmaxf(degree, 1);
#pragma unroll
  for (int c = 0; c < 4; c++) {
    float away = total[c] * share;
    all.mean.v[4 * i + c] = first[c] + away;
    all.deviation.v[4 * i + c] = degree > 0 ? sqrtf(fmaxf(squares[c] * share - away * away, 0.0f) + EPS) : 0.0f;
    all.top.v[4 * i + c] = degree > 0 ? top[c] : 0.0f;
    all.low.v[4 * i + c] = degree > 0 ? low[c] : 0.0f;
    all.tops.v[4 * i + c] = tops[c];
    all.lows.v[4 * i + c] = lows[c];
  }
}

// p and q: the planes of the senders' and the receivers' parts in shared memory.
template <bool COUNTS, int STRIDE>
INLINE Gathered gather(const float *p, const float *q, const Nodes &nodes) {
  Gathered all;
#pragma unroll
  for (int i = 0; i < 2; i++) gather_node<COUNTS, STRIDE>(all, i, p, q, nodes.list[i], nodes.degree[i]);
  __syncwarp();
  return all;
}

// The factors S(d, 1) and S(d, -1) of equation 6; 1 for the identity.
INLINE void scaler_factors(float (&factors)[S][2], const Nodes &nodes, float delta) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    factors[0][i] = 1.0f;
    if (S == 3) {
      factors[S / 2][i] = __fdividef(logf(nodes.degree[i] + 1.0f), delta);
      factors[S - 1][i] = __fdividef(delta, logf(fmaxf(nodes.degree[i], 1) + 1.0f));
    }
  }
}

INLINE Rows scaled(const Rows &a, const float (&factors)[2]) {
  Rows rows;
#pragma unroll
  for (int i = 0; i < 8; i++) rows.v[i] = a.v[i] * factors[i / 4];
  return rows;
}

INLINE Rows times_degree(const Rows &a, const Nodes &nodes) {
  float factors[2] = {(float)nodes.degree[0], (float)nodes.degree[1]};
  return scaled(a, factors);
}

// a + b + bias in the rows of nodes that have neighbours: the receiver's part of the messages shifts mean and extremes.
INLINE Rows shifted(const Rows &a, const Rows &b, const Rows &bias, const Nodes &nodes) {
  Rows rows;
#pragma unroll
  for (int i = 0; i < 8; i++) rows.v[i] = nodes.degree[i / 4] > 0 ? a.v[i] + (b.v[i] + bias.v[i]) : 0.0f;
  return rows;
}

// Where x before a layer (0), y (1) and z (2) of a tile are kept: states [layers, 3, R, tiles · ROWS, H].
INLINE size_t kept_at(int layer, int which) {
  return ((((size_t)layer * 3 + which) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * ROWS * H;
}

#if PNA_KERNEL == FORWARD

constexpr bool KEEP = PNA_KEEP;
constexpr int STRIDE = 5 * H;  // of a row: p and q of this layer and of the next; 16 words modulo 32 keep banks apart

// Adds the products of one aggregate with U's blocks, one for each scaler.
INLINE void combine(Rows (&sums)[S], const Rows &aggregate, const float *T, int a) {
#pragma unroll
  for (int s = 0; s < S; s++) towers(sums[s], aggregate, T + (COMBINED + s * A + a) * BLOCK);
}

// y, from x, from p and q of the node and of its neighbours.
INLINE Rows updated(const Rows &x, const float *p, const float *q, const Nodes &nodes, const float (&factors)[S][2],
                    const float *T, const float *bias) {
  Gathered all = gather<false, STRIDE>(p, q, nodes);
  Rows own_p = get(p, STRIDE), own_q = get(q, STRIDE), of_M = bias_rows(bias);
  Rows sums[S];
#pragma unroll
  for (int s = 0; s < S; s++) sums[s] = s == 0 ? bias_rows(bias + H) : zeros();
  Rows mean = shifted(all.mean, own_q, of_M, nodes);
  if (MEAN >= 0) combine(sums, mean, T, MEAN);
  if (STD >= 0) combine(sums, all.deviation, T, STD);
  if (MAX >= 0) combine(sums, shifted(all.top, SWAP ? own_p : own_q, of_M, nodes), T, MAX);
  if (MIN >= 0) combine(sums, shifted(all.low, SWAP ? own_p : own_q, of_M, nodes), T, MIN);
  if (SUM >= 0) combine(sums, times_degree(mean, nodes), T, SUM);
  towers(sums[0], x, T + OWN * BLOCK);
#pragma unroll
  for (int s = 1; s < S; s++)
#pragma unroll
    for (int i = 0; i < 8; i++) sums[0].v[i] += factors[s][i / 4] * sums[s].v[i];
  return sums[0];
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) recurrence_forward(
    const float *x, float *out, float *states, const int *node, const int *lists, const unsigned *words,
    const float *delta, const float *towers_1, const float *mix_1, const float *bias_1, const float *towers_m,
    const float *mix_m, const float *bias_m, const float *gru_weights, const float *gru_bias, int V, int layers) {
  const int r = blockIdx.y;
  float *T = (float *)shared_memory, *mix = T + COUNT * BLOCK, *G = mix + HH, *biases = G + 6 * HH;
  float *of_gru = biases + 3 * H, *planes = of_gru + 6 * H;
  load(G, gru_weights + r * 6 * HH, 6 * HH);
  load(of_gru, gru_bias + r * 6 * H, 6 * H);
  Nodes nodes = nodes_of(node, lists, words);
  float factors[S][2];
  scaler_factors(factors, nodes, delta[r]);
  Input input = input_of(x, nodes.node);
  Rows state = input.state, given = input.convolution;
  for (int layer = 0; layer < layers; layer++) {
    if (layer < 2) {
      __syncthreads();
      load(T, (layer == 0 ? towers_1 : towers_m) + (size_t)r * COUNT * BLOCK, COUNT * BLOCK);
      load(mix, (layer == 0 ? mix_1 : mix_m) + r * HH, HH);
      load(biases, (layer == 0 ? bias_1 : bias_m) + r * 3 * H, 3 * H);
      __syncthreads();
    }
    float *p = planes + layer % 2 * 2 * H, *q = p + H;
    Rows sender = zeros(), receiver = zeros();
    towers(sender, given, T + SENDER * BLOCK);
    towers(receiver, given, T + RECEIVER * BLOCK);
    put(p, sender, STRIDE);
    put(q, receiver, STRIDE);
    __syncthreads();
    Rows y = updated(given, p, q, nodes, factors, T, biases), z = bias_rows(biases + 2 * H);
    product(z, split(y), mix);
#pragma unroll
    for (int i = 0; i < 8; i++) z.v[i] = z.v[i] > 0 ? z.v[i] : SLOPE * z.v[i];
    if (KEEP) {
      if (layer > 0) put(states + kept_at(layer, 0), state);
      put(states + kept_at(layer, 1), y);
      put(states + kept_at(layer, 2), z);
    }
    Gates gates = gru(split(state), split(z), G, of_gru);
#pragma unroll
    for (int i = 0; i < 8; i++) state.v[i] = gates.n.v[i] + gates.u.v[i] * (z.v[i] - gates.n.v[i]);
    given = state;
  }
#pragma unroll
  for (int i = 0; i < 2; i++)
    if (nodes.node[i] >= 0) put4(out + ((size_t)r * V + nodes.node[i]) * H + 4 * thread_t(), state.v + 4 * i);
}

#else

// Where the quantities of a tile's rows lie in shared memory, in three phases of a layer.
constexpr int D_R = 0, D_U = 1 * H, D_N = 2 * H, D_B = 3 * H, D_Z = 4 * H, X = 5 * H, Z = 6 * H, Y = 7 * H;  // the GRU's
constexpr int LEVEL = 4 * H, STEEP = 5 * H, TOP = 6 * H, LOW = 7 * H;  // the aggregates are at a · H, then coefficients
constexpr int SENT_P = 4 * H, SENT_Q = 5 * H, MESSAGE = 6 * H, GIVEN = 7 * H;  // the projections'
constexpr int D_Y = 8 * H, P = 9 * H, Q = 10 * H;                              // throughout
constexpr int STRIDE = 11 * H;  // 16 words modulo 32 keep banks apart

// c[k] += Aᵀ B_k, [16, 8] each, over 64 rows of the tile, the upper half for the warps 0 … 3 and the lower for the
// others: `left(row, m)` is A's number m of a row, `right(row, n)` B's, 8 for each k.
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

// ---- A layer backwards ----

// Asks for what the next layer reads: memory is far.
INLINE void prefetch_kept(const float *states, int layer) {
  const int which = thread_t();
  if (which < 3 && (which > 0 || layer > 0))
#pragma unroll
    for (int i = 0; i < 2; i++) prefetch(states + kept_at(layer, which) + (warp_row() + 8 * i) * H);
}

// The GRU and the mixing layer: the gradient of the new state -> of the state so far; of y at D_Y.
INLINE Rows gates_backward(const Rows &grad, const Rows &state, const float *y, const float *z, float *tile,
                           const float *G, const float *back, const float *mix, const float *bias) {
  Rows out = get(z);
  put(tile + X, state, STRIDE);
  put(tile + Z, out, STRIDE);
  put(tile + Y, get(y), STRIDE);
  Gates s = gru(split(state), split(out), G, bias);
  Rows d_r, d_u, d_n, d_b, d_z, down = zeros(), d_y = zeros();
#pragma unroll
  for (int i = 0; i < 8; i++) {
    float n = s.n.v[i], u = s.u.v[i], reset = s.r.v[i], g = grad.v[i];
    d_n.v[i] = g * (1 - u) * (1 - n * n);
    d_u.v[i] = g * (out.v[i] - n) * u * (1 - u);
    d_r.v[i] = d_n.v[i] * s.b.v[i] * reset * (1 - reset);
    d_b.v[i] = d_n.v[i] * reset;
    d_z.v[i] = g * u;
  }
  put(tile + D_R, d_r, STRIDE);
  put(tile + D_U, d_u, STRIDE);
  put(tile + D_N, d_n, STRIDE);
  put(tile + D_B, d_b, STRIDE);
  Split half = split(d_r);
  product(down, half, back);
  product(d_z, half, back + 3 * HH);
  half = split(d_u);
  product(down, half, back + HH);
  product(d_z, half, back + 4 * HH);
  product(down, split(d_n), back + 2 * HH);
  product(d_z, split(d_b), back + 5 * HH);
#pragma unroll
  for (int i = 0; i < 8; i++) d_z.v[i] = out.v[i] > 0 ? d_z.v[i] : SLOPE * d_z.v[i];
  put(tile + D_Z, d_z, STRIDE);
  product(d_y, split(d_z), mix);
  put(tile + D_Y, d_y, STRIDE);
  return down;
}

struct Received {  // the gradients of a node's own part in the messages it receives: in mean, sum; in the extremes
  Rows level, extreme;
};

// The gradient of aggregate a, from that of y.
INLINE Rows of_aggregate(const Rows (&grads)[S], const float *T, int a) {
  Rows sum = zeros();
#pragma unroll
  for (int s = 0; s < S; s++) towers_back(sum, grads[s], T + (COMBINED + s * A + a) * BLOCK);
  return sum;
}

// From the gradient of y to the coefficients that a node's neighbours read: the gradient of a message m is
// level + steep (m - centre), and more if it is an extreme; the centre, p of the tile's first row, is near the mean.
INLINE Received coefficients(const Gathered &all, float *tile, const float *T, const float *bias,
                             const float (&factors)[S][2], const Nodes &nodes) {
  if (MEAN >= 0) put(tile + MEAN * H, all.mean, STRIDE);
  if (STD >= 0) put(tile + STD * H, all.deviation, STRIDE);
  if (MAX >= 0) put(tile + MAX * H, all.top, STRIDE);
  if (MIN >= 0) put(tile + MIN * H, all.low, STRIDE);
  if (SUM >= 0)
    put(tile + SUM * H, times_degree(shifted(all.mean, get(tile + Q, STRIDE), bias_rows(bias), nodes), nodes), STRIDE);
  Rows grads[S], level = zeros(), steep;
  Received received = {zeros(), zeros()};
#pragma unroll
  for (int s = 0; s < S; s++) grads[s] = scaled(get(tile + D_Y, STRIDE), factors[s]);
  float degree[2], once[2], share[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    degree[i] = nodes.degree[i];
    once[i] = nodes.degree[i] > 0 ? 1.0f : 0.0f;
    share[i] = once[i] / fmaxf(degree[i], 1.0f);
  }
  if (MEAN >= 0) {
    Rows g = of_aggregate(grads, T, MEAN);
    received.level = scaled(g, once);
    level = scaled(g, share);
  }
  if (SUM >= 0) {
    Rows g = of_aggregate(grads, T, SUM);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      received.level.v[i] += g.v[i] * degree[i / 4];
      level.v[i] += g.v[i] * once[i / 4];
    }
  }
  if (STD >= 0) {
    Rows g = of_aggregate(grads, T, STD), centre = bias_rows(tile + P);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      steep.v[i] = __fdividef(g.v[i] * share[i / 4], nodes.degree[i / 4] > 0 ? all.deviation.v[i] : 1.0f);
      level.v[i] -= steep.v[i] * (all.mean.v[i] - centre.v[i]);
    }
    put(tile + STEEP, steep, STRIDE);
  }
  if (MEANS) put(tile + LEVEL, level, STRIDE);
#pragma unroll
  for (int k = 0; k < 2; k++) {
    if ((k == 0 ? MAX : MIN) < 0) continue;
    Rows g = scaled(of_aggregate(grads, T, k == 0 ? MAX : MIN), once), each;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      received.extreme.v[i] += g.v[i];
      each.v[i] = g.v[i] * inverse(fmaxf(k == 0 ? all.tops.v[i] : all.lows.v[i], 1.0f));
    }
    put(tile + (k == 0 ? TOP : LOW), each, STRIDE);
  }
  return received;
}

struct Sent {  // the gradients of p and q of a node as a sender, four features
  float p[4], q[4];
};

// Adds what one receiver, whose coefficients are in `row`, asks of its sender with p (less the centre) and e = p or q.
INLINE void add_receiver(Sent &sent, const float *row, const float (&p)[4], const float (&e)[4]) {
  float level[4], steep[4], top[4], low[4], is_top[4], is_low[4];
  if (MEANS) set4(level, get4(row + LEVEL));
  if (STD >= 0) set4(steep, get4(row + STEEP));
  if (MAX >= 0) set4(top, get4(row + TOP)), set4(is_top, get4(row + MAX * H));
  if (MIN >= 0) set4(low, get4(row + LOW)), set4(is_low, get4(row + MIN * H));
#pragma unroll
  for (int c = 0; c < 4; c++) {
    float *extreme = SWAP ? sent.q : sent.p;
    if (MEANS) sent.p[c] += level[c];
    if (STD >= 0) sent.p[c] += steep[c] * p[c];
    if (MAX >= 0) extreme[c] += is_top[c] == e[c] ? top[c] : 0.0f;
    if (MIN >= 0) extreme[c] += is_low[c] == e[c] ? low[c] : 0.0f;
  }
}

// One pass over the receivers of the thread's node i.
INLINE Sent gather_gradient(int i, const float *tile, const Nodes &nodes) {
  Sent sent = {};
  const float *own = tile + (warp_row() + 8 * i) * STRIDE + 4 * thread_t();
  float p[4], e[4], centre[4];
  set4(p, get4(own + P));
  set4(e, get4(own + (SWAP ? Q : P)));
  set4(centre, get4(tile + P + 4 * thread_t()));
#pragma unroll
  for (int c = 0; c < 4; c++) p[c] -= centre[c];
  for (int k = 0; k < nodes.degree[i]; k += 4) {
    unsigned four = nodes.list[i][k >> 2];
#pragma unroll
    for (int n = 0; n < 4; n++)
      if (k + n < nodes.degree[i]) add_receiver(sent, tile + neighbour(four, n) * STRIDE + 4 * thread_t(), p, e);
  }
  return sent;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) recurrence_backward(
    const float *x, const float *grad_out, const float *states, const int *node, const int *lists,
    const unsigned *words, const float *delta, const float *towers_1, const float *mix_1, const float *bias_1,
    const float *towers_m, const float *mix_m, const float *bias_m, const float *gru_weights, const float *gru_bias,
    float *grad_1, float *grad_m, float *grad_gru, int V, int layers) {
  const int r = blockIdx.y;
  float *G = (float *)shared_memory, *back = G + 6 * HH, *mix = back + 6 * HH, *T = mix + HH;
  float *bias = T + COUNT * BLOCK, *of_gru = bias + H, *of_rows = of_gru + 6 * H, *tile = of_rows + S * ROWS;
  load(G, gru_weights + r * 6 * HH, 6 * HH);
  load_transposed(back, gru_weights + r * 6 * HH, 6);
  load(of_gru, gru_bias + r * 6 * H, 6 * H);
  Nodes nodes = nodes_of(node, lists, words);
  float factors[S][2];
  scaler_factors(factors, nodes, delta[r]);
  if (thread_t() == 0)
#pragma unroll
    for (int s = 0; s < S; s++)
#pragma unroll
      for (int i = 0; i < 2; i++)
        of_rows[s * ROWS + warp_row() + 8 * i] = nodes.degree[i] > 0 ? factors[s][i] : 0.0f;
  Rows grad = of_nodes(grad_out + (size_t)r * V * H, nodes.node);
  Sums sums;
  clear(sums.dense, 6);
  clear(sums.combined, S == 3 ? 2 : 1);
  clear(sums.projections, 1);
  for (int layer = layers - 1; layer >= 0; layer--) {
    if (layer == layers - 1 || layer == 0) {
      const bool first = layer == 0;
      if (first) {
        put_convolution(grad_m, sums);
        clear(sums.combined, S == 3 ? 2 : 1);
        clear(sums.projections, 1);
        if (role() == 3) clear(sums.dense, 6);
      }
      load(T, (first ? towers_1 : towers_m) + (size_t)r * COUNT * BLOCK, COUNT * BLOCK);
      load_transposed(mix, (first ? mix_1 : mix_m) + r * HH, 1);
      load(bias, (first ? bias_1 : bias_m) + r * 3 * H, H);
      __syncthreads();
    }
    Rows state, given;
    if (layer == 0) {
      Input input = input_of(x, nodes.node);
      state = input.state, given = input.convolution;
    } else {
      state = given = get(states + kept_at(layer, 0));
    }
    Rows down = gates_backward(
        grad, state, states + kept_at(layer, 1), states + kept_at(layer, 2), tile, G, back, mix, of_gru);
    Rows p = zeros(), q = zeros();
    towers(p, given, T + SENDER * BLOCK);
    towers(q, given, T + RECEIVER * BLOCK);
    put(tile + P, p, STRIDE);
    put(tile + Q, q, STRIDE);
    __syncthreads();
    sum_dense(sums, tile);
    Gathered all = gather<true, STRIDE>(tile + P, tile + Q, nodes);
    __syncthreads();
    if (layer > 0) prefetch_kept(states, layer - 1);
    Received received = coefficients(all, tile, T, bias, factors, nodes);
    __syncthreads();
    sum_combined(sums, tile, of_rows, bias);
    Rows sent_p, sent_q, message;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      Sent sent = gather_gradient(i, tile, nodes);
#pragma unroll
      for (int c = 0; c < 4; c++) sent_p.v[4 * i + c] = sent.p[c], sent_q.v[4 * i + c] = sent.q[c];
    }
    __syncwarp();
    towers_back(down, get(tile + D_Y, STRIDE), T + OWN * BLOCK);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) {
      message.v[i] = received.level.v[i] + received.extreme.v[i];
      (SWAP ? sent_p : sent_q).v[i] += received.extreme.v[i];
      sent_q.v[i] += received.level.v[i];
    }
    put(tile + SENT_P, sent_p, STRIDE);
    put(tile + SENT_Q, sent_q, STRIDE);
    put(tile + MESSAGE, message, STRIDE);
    put(tile + GIVEN, layer == 0 ? input_of(x, nodes.node).convolution : get(states + kept_at(layer, 0)), STRIDE);
    towers_back(down, sent_p, T + SENDER * BLOCK);
    towers_back(down, sent_q, T + RECEIVER * BLOCK);
    grad = down;
    __syncthreads();
    sum_projections(sums, tile);
    __syncthreads();
  }
  put_convolution(grad_1, sums);
  put_gru(grad_gru, sums);
}

#endif
