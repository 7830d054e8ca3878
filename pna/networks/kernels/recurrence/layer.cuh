// All layers of a recurrent PNA network with H = 16 features in four towers, forward in one kernel and backward in one:
// equations 7 and 8 with linear M and U, the mixing layer, the GRU. forward.cu and backward.cu follow on this, which they
// have in common, and are compiled at run time, one configuration at a time. triton_forward.py and triton_backward.py
// compute the same layer by layer.
//
// A block has a tile of whole graphs, 128 rows of nodes (tiles.py), and takes it through all layers: what
// neighbours need of each other lies in shared memory, and only what the backward pass reads again goes to memory.
//
// A warp has 16 nodes: its thread (g, t) has the features 4t … 4t + 3 of the nodes g and g + 8: those of tower t. So
// the products of a tower, 4 × 4, are a thread's own. Dense products, of the GRU and of the mixing layer, are taken by
// the tensor cores in TF32, three for each so that float32's precision stays; they want the left operand and leave the
// result just where the threads have them if the features are numbered suitably. Only gradients of weights, which sum
// over nodes, need activations across threads: through shared memory, where each warp sums for some of the weights.

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
