// All layers of a network with H = 4 F features in one kernel forward and one backward. The convolution is PNA in four
// towers (equations 7 and 8 with linear M and U, then the mixing layer), GCN (equation 11), GAT with four heads
// (equation 12) or GIN (equation 13), whose training needs a launch for every layer (gin.cuh). The recurrent
// architecture adds the GRU. This file holds what forward.cu and backward.cu share; they are appended to it and
// compiled at run time, one configuration at a time.
//
// A block takes a tile of whole graphs, 16 rows of nodes for each warp (tiles.py), through all layers. Neighbours
// exchange their features through shared memory; only what the backward pass reads again goes to global memory.
//
// A warp holds 16 nodes: its thread (g, t) has the F features of tower t for the nodes g and g + 8, so the F × F
// products of a tower stay within a thread. Dense products, those of the GRU and the mixing layer, use the tensor cores
// in TF32: three products for each keep the precision of float32. With the features numbered suitably, the tensor cores
// read the left operand and leave the result where the threads hold them. Only the gradients of weights, sums over
// nodes, need activations of other threads: these go through shared memory, and each warp sums for some of the weights.

constexpr int WARPS = PNA_WARPS, ROWS = 16 * WARPS;  // rows of a tile
constexpr int RESIDENT = PNA_RESIDENT;               // blocks that a multiprocessor should hold at a time
constexpr bool GRU = PNA_GRU;                        // a GRU follows every convolution
constexpr bool EVERY = PNA_EVERY;                    // every layer has an output: the standard architecture
constexpr bool DEPTHS = PNA_DEPTHS > 0;              // each graph has its own number of layers
constexpr bool UNTIL = PNA_DEPTHS == 2;              // the forward pass determines that number, for every replica
constexpr int CONVOLUTIONS = PNA_CONVOLUTIONS;       // number of distinct weights; all later layers share the last
constexpr int OUTPUTS = EVERY ? CONVOLUTIONS : 1;
constexpr bool GCN = PNA_GCN, GAT = PNA_GAT, GIN = PNA_GIN;  // PNA if none of them
constexpr bool SPLIT = PNA_SPLIT;                            // several launches, divided at the sums over all nodes
constexpr bool DROP = PNA_DROP;                              // features of a convolution's output are dropped
constexpr bool STATES = GRU || DROP || SPLIT && DEPTHS;      // keep states: they differ from the layer below's outputs
constexpr int F = PNA_F, H = 4 * F, HH = H * H;
constexpr float SLOPE = GIN ? 0.0f : 0.01f;  // negative slope of ReLU or LeakyReLU
constexpr float INF = 3.4e38f;

// PNA's aggregators, by position (-1: absent), the numbers of aggregators and scalers, and D5 (SWAP).
constexpr int A = PNA_A, S = PNA_S;
constexpr int MEAN = PNA_MEAN, STD = PNA_STD, MAX = PNA_MAX, MIN = PNA_MIN, SUM = PNA_SUM;
constexpr int SOFTMAX = PNA_SOFTMAX, SOFTMIN = PNA_SOFTMIN;
constexpr int ORDER = PNA_MOMENT5 >= 0 ? 5 : PNA_MOMENT4 >= 0 ? 4 : PNA_MOMENT3 >= 0 ? 3 : 0;  // the highest moment
constexpr int POWERS = ORDER > 0 ? ORDER - 1 : 1;                                              // powers from 2 to ORDER
constexpr bool EXTREMES = MAX >= 0 || MIN >= 0, OTHERS = MEAN >= 0 || SUM >= 0 || STD >= 0 || ORDER > 0;
constexpr bool SOFT = SOFTMAX >= 0 || SOFTMIN >= 0, SWAP = PNA_SWAP;
constexpr float EPS = PNA_EPS;

// Weights of a convolution: a dense matrix; biases (PNA: of M, U and the mixing layer; GAT: the two halves of its
// attention vector; GIN: 1 + ε, b₁ and b₂); the towers' matrices, a block of each tower side by side, or GIN's W₁.
constexpr int BIASES = GCN ? 1 : GAT ? 2 : 3, BLOCK = H * F;
constexpr int RECEIVER = 0, SENDER = 1, OWN = 2, COMBINED = 3, COUNT = COMBINED + S * A;
constexpr int TOWERS = GCN || GAT ? 0 : GIN ? HH : COUNT * BLOCK;

#ifndef EMULATED
extern __shared__ float4 shared_memory[];

INLINE void prefetch(const float *place) { asm volatile("prefetch.global.L2 [%0];" ::"l"(place)); }

INLINE unsigned ask(const unsigned *place) {  // loads now; the compiler would wait until the first use
  unsigned word;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(place));
  return word;
}
#endif

INLINE int warp_row() { return (threadIdx.x >> 5) * 16 + thread_g(); }  // row of the thread's first node

INLINE int soft(int k) { return k == 0 ? SOFTMAX : SOFTMIN; }  // position, or -1

INLINE int moment(int n) { return n == 3 ? PNA_MOMENT3 : n == 4 ? PNA_MOMENT4 : PNA_MOMENT5; }  // position, or -1

// ---- Activations ----------------------------------------------------------------------------------------------------

struct Rows {
  float v[2 * F];  // the features of node g, then of node g + 8
};

INLINE Rows zeros() { return {}; }

// Offset of the thread's tower in a row of the tile, whose rows are `stride` numbers long. PNA's backward pass permutes
// the four towers of a row by the row's number modulo four: the sums over nodes read four rows at a time, which then
// lie in different banks.
constexpr bool TURNED = F == 4 && !GCN && !GAT && !GIN;

INLINE int at_row(int row, int stride) {
  const int place = row * stride + F * thread_t();
  return TURNED && stride == PNA_PLANES * H ? place ^ F * (row & 3) : place;
}

// Reads the thread's features of both of its nodes from such an array.
INLINE Rows get(const float *base, int stride = H) {
  Rows rows;
  base += at_row(warp_row(), stride);
  get_n<F>(rows.v, base);
  get_n<F>(rows.v + F, base + 8 * stride);
  return rows;
}

INLINE void put(float *base, const Rows &rows, int stride = H) {
  base += at_row(warp_row(), stride);
  put_n<F>(base, rows.v);
  put_n<F>(base + 8 * stride, rows.v + F);
}

// The thread's part of a bias [H], repeated for both nodes.
INLINE Rows bias_rows(const float *bias) {
  Rows rows;
  get_n<F>(rows.v, bias + F * thread_t());
#pragma unroll
  for (int c = 0; c < F; c++) rows.v[F + c] = rows.v[c];
  return rows;
}

// The thread's features in an array [V, stride] indexed by node, from column `first` on; zeros in rows without a node.
INLINE Rows of_nodes(const float *base, const int *node, int stride, int first) {
  Rows rows = zeros();
#pragma unroll
  for (int i = 0; i < 2; i++)
    if (node[i] >= 0) get_n<F>(rows.v + F * i, base + (size_t)node[i] * stride + first);
  return rows;
}

// Number of layers of the thread's two nodes, and the largest in the block. If launches are split, the block runs all
// layers: nodes of finished graphs still count in the sums over all nodes. Overwrites the start of shared memory.
struct Layers {
  int node[2], block;
};

INLINE Layers layers_of(const int *depths, const int *node, int layers) {
  Layers found = {{layers, layers}, layers};
  if (!DEPTHS) return found;
#pragma unroll
  for (int i = 0; i < 2; i++) found.node[i] = node[i] < 0 ? 1 : depths[node[i]];
  if (SPLIT) return found;
  int *all = (int *)shared_memory;
  all[threadIdx.x] = found.node[0] > found.node[1] ? found.node[0] : found.node[1];
  __syncthreads();
  found.block = 1;
  for (int k = 0; k < 32 * WARPS; k++) found.block = all[k] > found.block ? all[k] : found.block;
  __syncthreads();
  return found;
}

// The input features, at most F: the GRU sees them as the first of its H features; PNA gives them to every tower.
struct Input {
  Rows state, convolution;
};

INLINE Input input_of(const float *x, const int *node) {
  Input input;
  input.convolution = of_nodes(x, node, H, 0);
#pragma unroll
  for (int i = 0; i < 2 * F; i++) input.state.v[i] = thread_t() == 0 ? input.convolution.v[i] : 0.0f;
  if (GCN || GAT || GIN) input.convolution = input.state;
  return input;
}

// ---- Products -------------------------------------------------------------------------------------------------------

INLINE Split<2 * F> split(const Rows &a) { return split(a.v); }

// sum += a Mᵀ, M [out, in] in shared memory. The tensor cores read and write two features of every thread at a time;
// if F is odd, the last feature is paired with a zero, whose result is dropped.
INLINE void product(Rows &sum, const Split<2 * F> &a, const float *M) {
#pragma unroll
  for (int n = 0; n < F; n += 2) {
    int g = thread_g();
    float *c = sum.v + n, none[2] = {};
    float &c1 = n + 1 < F ? c[1] : none[0], &c3 = n + 1 < F ? c[F + 1] : none[1];
    float w[F + 1], high[F + 1], low[F + 1];
    get_n<F>(w, M + (F * (g >> 1) + n + (g & 1)) * H + F * thread_t());
    w[F] = 0.0f;
#pragma unroll
    for (int i = 0; i <= F; i++) {
      high[i] = high_half(w[i]);
      low[i] = w[i] - high[i];
    }
#pragma unroll
    for (int k = 0; k < F; k += 2) {
      const bool two = k + 1 < F;
      float a_high[4] = {a.high[k], a.high[k + F], two ? a.high[k + 1] : 0.0f, two ? a.high[k + F + 1] : 0.0f};
      float a_low[4] = {a.low[k], a.low[k + F], two ? a.low[k + 1] : 0.0f, two ? a.low[k + F + 1] : 0.0f};
      mma(c[0], c1, c[F], c3, a_low, high[k], high[k + 1]);
      mma(c[0], c1, c[F], c3, a_high, low[k], low[k + 1]);
      mma(c[0], c1, c[F], c3, a_high, high[k], high[k + 1]);
    }
  }
}

// sum += a Wᵀ within each tower, W [out, tower, in]; towers_back is sum += a W.
INLINE void towers(Rows &sum, const Rows &a, const float *W) {
#pragma unroll
  for (int out = 0; out < F; out++) {
    float w[F];
    get_n<F>(w, W + out * H + F * thread_t());
#pragma unroll
    for (int i = 0; i < 2 * F; i++) sum.v[i / F * F + out] += w[i % F] * a.v[i];
  }
}

INLINE void towers_back(Rows &sum, const Rows &a, const float *W) {
#pragma unroll
  for (int out = 0; out < F; out++) {
    float w[F];
    get_n<F>(w, W + out * H + F * thread_t());
#pragma unroll
    for (int i = 0; i < 2 * F; i++) sum.v[i] += w[i % F] * a.v[i / F * F + out];
  }
}

// Calls of(i) for the thread's share of i < count. A constant number of rounds lets the compiler unroll the loop.
template <class Of>
INLINE void share(int count, Of of) {
#pragma unroll
  for (int round = 0; round < count; round += 32 * WARPS)
    if (round + 32 * WARPS <= count || round + threadIdx.x < count) of(round + threadIdx.x);
}

INLINE void load(float *to, const float *from, int count) {
  share(count / 4, [=](int i) { ((float4 *)to)[i] = ((const float4 *)from)[i]; });
}

INLINE void load_transposed(float *to, const float *from, int matrices) {
  share(matrices * HH, [=](unsigned i) { to[i - i % HH + i % H * H + i / H % H] = from[i]; });
}

// ---- Dropout --------------------------------------------------------------------------------------------------------

INLINE unsigned mixed(unsigned x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

// Which of the thread's features stay, one bit each, and the factor of those.
struct Staying {
  unsigned bits;
  float factor;
};

// The features that stay in a layer, by the hash of pna/networks/dropout.py. `dropout` holds the rate, the seed and the
// earlier calls of its convolution. Rows without a node lose features, too, which nothing reads.
INLINE Staying staying(const float *dropout, const int *node, int layer) {
  const unsigned seed = (long long)dropout[1], call = (long long)dropout[2] + (layer > 0 ? layer : 1);
  const unsigned key = mixed(seed * 0x9e3779b1u + call);
  Staying stay = {0, 1 / (1 - dropout[0])};
#pragma unroll
  for (int i = 0; i < 2 * F; i++) {
    const unsigned place = node[i / F] * H + F * thread_t() + i % F;
    if (mixed(key + place) * 0x1p-32f >= dropout[0]) stay.bits |= 1u << i;
  }
  return stay;
}

INLINE void drop(Rows &rows, Staying stay) {
#pragma unroll
  for (int i = 0; i < 2 * F; i++) rows.v[i] = stay.bits >> i & 1 ? stay.factor * rows.v[i] : 0.0f;
}

// ---- The GRU --------------------------------------------------------------------------------------------------------

struct Gates {
  Rows r, u, n, b;
};

INLINE Gates gru(const Split<2 * F> &x, const Split<2 * F> &z, const float *W, const float *bias) {
  Gates s = {bias_rows(bias), bias_rows(bias + H), bias_rows(bias + 2 * H), bias_rows(bias + 5 * H)};
  Rows more_r = bias_rows(bias + 3 * H), more_u = bias_rows(bias + 4 * H);
  product(s.r, x, W);
  product(s.u, x, W + HH);
  product(s.n, x, W + 2 * HH);
  product(more_r, z, W + 3 * HH);
  product(more_u, z, W + 4 * HH);
  product(s.b, z, W + 5 * HH);
#pragma unroll
  for (int i = 0; i < 2 * F; i++) {
    s.r.v[i] = sigmoid(s.r.v[i] + more_r.v[i]);
    s.u.v[i] = sigmoid(s.u.v[i] + more_u.v[i]);
    s.n.v[i] = tanh_of(s.n.v[i] + s.r.v[i] * s.b.v[i]);
  }
  return s;
}
