// The readout Set2Set for H = 16 or 32. pna/networks/layers.py defines it in plain torch, and __init__.py names the
// tensors. This file holds what forward.cu and backward.cu share; one of them is appended to it and compiled at run
// time, one configuration at a time.
//
// A block of H / 4 warps takes 16 graphs of one replica; a step has two phases. Attention: H / 2 threads share a graph,
// and each holds eight features of every fourth node, in registers from the first step to the last. LSTM: a warp has
// four features of all 16 graphs, so that its thread (g, t) has all gates of feature 4 warp + t for the graphs g and
// g + 8. Between the phases, vectors are exchanged through shared memory.

constexpr int NODES = PNA_NODES;        // nodes of a thread: a graph has 4 (NODES - 1) + 1 to 4 NODES nodes
constexpr int RESIDENT = PNA_RESIDENT;  // blocks that a multiprocessor should hold at a time
constexpr int H = PNA_H, HH = H * H, CHUNKS = H / 16;  // 16 or 32 features
constexpr int GRAPHS = 16, WARPS = H / 4, THREADS = 32 * WARPS, TILE = GRAPHS * H;

// Offsets of what is kept of a step for a tile: states, reads, memories (in the order of the threads), and for each
// graph the largest logit and the factor of the exponentials: with these, backward computes the attention from the
// logits.
constexpr int READ = TILE, MEMORY = 2 * TILE, FACTORS = 3 * TILE, KEPT = 3 * TILE + 2 * GRAPHS;

#ifndef EMULATED
INLINE void warp_barrier() { __syncwarp(); }

INLINE void copy_later(float *shared, const float *global) {  // copies four numbers asynchronously
  unsigned place = __cvta_generic_to_shared(shared);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(global) : "memory");
}

INLINE void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

extern __shared__ float4 shared_memory[];

template <class Shared>
INLINE Shared &shared_as() {
  return *(Shared *)shared_memory;
}
#endif

INLINE Pair get2(const float *place) { return *(const Pair *)place; }

INLINE void put2(float *place, Pair a) { *(Pair *)place = a; }

// Offset of a graph's feature in a tile in shared memory. Each graph has its quarters in another order, which avoids
// bank conflicts whether threads read one feature or quarter of many graphs, or one whole graph.
template <int W = H>
INLINE int at(int graph, int feature) {
  return graph * W + (feature ^ (W == 32 ? (graph & 1) << 4 : 0) ^ (graph & 2) << 2 ^ (graph & 4));
}

constexpr int EIGHT = 8 * H;  // offset of the graph eight further on, which has the same order

// ---- The attention: thread j of those that share a graph ------------------------------------------------------------

INLINE int thread_graph() { return threadIdx.x / (H / 2); }
INLINE int thread_j() { return threadIdx.x % (H / 2); }

// Eight features of a node or graph, from 8 ⌊j / 4⌋ on. The four that include the thread's own, 2j and 2j + 1, come
// first, so that `scattered` always sends the last four.
struct Vector {
  float v[8];
};

INLINE int quarter(int k) { return (thread_j() >> 2) * 8 + ((thread_j() & 2) * 2 ^ 4 * k); }

INLINE Vector get_vector(const float *tile) {
  Vector a;
#pragma unroll
  for (int k = 0; k < 2; k++) set4(a.v + 4 * k, get4(tile + (at(thread_graph(), quarter(0)) ^ 4 * k)));
  return a;
}

INLINE Pair own(const Vector &a) {
  bool odd = thread_j() & 1;
  return {odd ? a.v[2] : a.v[0], odd ? a.v[3] : a.v[1]};
}

// Sums over the four threads that hold the same features; each gets the sums of its own two.
INLINE Pair scattered(Vector &a) {
#pragma unroll
  for (int i = 0; i < 4; i++) a.v[i] += from_lane(a.v[i + 4], 2);
  bool odd = thread_j() & 1;
  float x = from_lane(odd ? a.v[0] : a.v[2], 1), y = from_lane(odd ? a.v[1] : a.v[3], 1);
  Pair mine = own(a);
  return {mine.x + x, mine.y + y};
}

// Sums over the four threads that hold different nodes.
INLINE float sum_of_nodes(float a) {
  a += from_lane(a, 1);
  return a + from_lane(a, 2);
}

// Sums over the threads that hold different features of the same nodes.
INLINE float sum_of_features(float a) {
#pragma unroll
  for (int apart = 4; apart < H / 2; apart *= 2) a += from_lane(a, apart);
  return a;
}

INLINE float max_of_nodes(float a) {
  a = fmaxf(a, from_lane(a, 1));
  return fmaxf(a, from_lane(a, 2));
}

// Pointer to the thread's k-th node in [G, N, H]; null if there is none.
template <class Float>
INLINE Float *node_of(Float *base, int k, int first, int G, int N) {
  int graph = first + thread_graph(), node = (thread_j() & 3) + 4 * k;
  return graph < G && node < N ? base + ((size_t)graph * N + node) * H : nullptr;
}

INLINE void load_nodes(Vector (&nodes)[NODES], const float *x, int first, int G, int N) {
#pragma unroll
  for (int n = 0; n < NODES; n++) {
    const float *place = node_of(x, n, first, G, N);
#pragma unroll
    for (int k = 0; k < 2; k++)
      set4(nodes[n].v + 4 * k, place ? get4(place + quarter(k)) : make_float4(0, 0, 0, 0));
  }
}

INLINE float dot(const Vector &a, const Vector &b) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 8; i++) sum += a.v[i] * b.v[i];
  return sum_of_features(sum);
}

INLINE void add(Vector &sum, float factor, const Vector &a) {
#pragma unroll
  for (int i = 0; i < 8; i++) sum.v[i] += factor * a.v[i];
}

INLINE bool is_node(int n, int N) { return n < NODES - 1 || (thread_j() & 3) + 4 * n < N; }

// Writes the softmax of x · state over the nodes; returns the largest logit and the factor of the exponentials.
INLINE Pair attend(float (&weights)[NODES], const Vector (&nodes)[NODES], const Vector &state, int N) {
  const float INF = __int_as_float(0x7f800000);
  float top = -INF, total = 0.0f;
#pragma unroll
  for (int n = 0; n < NODES; n++) {
    weights[n] = dot(nodes[n], state);
    if (!is_node(n, N)) weights[n] = -INF;
    top = fmaxf(top, weights[n]);
  }
  top = max_of_nodes(top);
#pragma unroll
  for (int n = 0; n < NODES; n++) {
    weights[n] = expf(weights[n] - top);
    total += weights[n];
  }
  float factor = inverse(sum_of_nodes(total));
#pragma unroll
  for (int n = 0; n < NODES; n++) weights[n] *= factor;
  return {top, factor};
}

// ---- The LSTM: thread (g, t) of a warp ------------------------------------------------------------------------------

INLINE int thread_warp() { return threadIdx.x >> 5; }
INLINE int thread_feature() { return 4 * thread_warp() + thread_t(); }

// c += A B, [16, 16] × [16, 8]. The thread holds four elements of A's row g, then four of row g + 8, and the matching
// four of B's column g; of C it holds columns 2t and 2t + 1 of row g, then of row g + 8.
INLINE void product(float (&c)[4], const Split<8> &a, float4 b) {
  float w[4], high[4];
  set4(w, b);
#pragma unroll
  for (int i = 0; i < 4; i++) high[i] = high_half(w[i]);
#pragma unroll
  for (int k = 0; k < 4; k += 2) {
    float a_high[4] = {a.high[k], a.high[k + 4], a.high[k + 1], a.high[k + 5]};
    float a_low[4] = {a.low[k], a.low[k + 4], a.low[k + 1], a.low[k + 5]};
    mma(c[0], c[1], c[2], c[3], a_low, high[k], high[k + 1]);
    mma(c[0], c[1], c[2], c[3], a_high, w[k] - high[k], w[k + 1] - high[k + 1]);
    mma(c[0], c[1], c[2], c[3], a_high, high[k], high[k + 1]);
  }
}

// Features 4t … 4t + 3 of a chunk of 16, for graphs g and g + 8.
INLINE Split<8> rows_of(const float *tile, int chunk) {
  float rows[8];
#pragma unroll
  for (int i = 0; i < 2; i++) set4(rows + 4 * i, get4(tile + at(thread_g(), 16 * chunk + 4 * thread_t()) + i * EIGHT));
  return split(rows);
}

// Features g and g + 8 of a chunk, for graphs t, t + 4, t + 8 and t + 12: the operands of sums over graphs.
template <int W = H>
INLINE void columns_of(float (&columns)[8], const float *tile, int chunk) {
#pragma unroll
  for (int i = 0; i < 8; i++) {
    int feature = 8 * (i >> 2), graph = 4 * (i & 1);  // bits that `at` mixes into the offset
    columns[i] = tile[(at<W>(thread_t(), 16 * chunk + thread_g()) ^ feature ^ graph) + (i & 3) * 4 * W];
  }
}

struct Gates {  // before the activations: i and f for graph g, then for g + 8; then g and o in that order
  float v[2][4];
};

INLINE float4 bias_of(const float *bias) {
  bias += thread_feature();
  return make_float4(bias[0], bias[H], bias[2 * H], bias[3 * H]);
}

INLINE Gates gates_of(float4 bias) { return {{{bias.x, bias.y, bias.x, bias.y}, {bias.z, bias.w, bias.z, bias.w}}}; }

// Weights for `product`, of the state (half 0) or of the read (half 1), for the gates i and f, or g and o.
INLINE float4 forward_weights(const float *weights, int half, int pair, int chunk) {
  int gate = 2 * pair + (thread_g() & 1), out = 4 * thread_warp() + (thread_g() >> 1);
  return get4(weights + (4 * half + gate) * HH + out * H + 16 * chunk + 4 * thread_t());
}

INLINE float activated(const Gates &gates, int gate, int row) {
  float a = gates.v[gate >> 1][2 * row + (gate & 1)];
  return gate == 2 ? tanh_of(a) : sigmoid(a);
}
