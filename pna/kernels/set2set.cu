// The two kernels of the readout Set2Set for H = 16: set2set.py has the same in Triton, says what they compute, and
// names the tensors. Compiled at run time, one kernel and one configuration at a time.
//
// A block of four warps has 16 graphs of one replica, and does a step in two turns. The attention: eight threads have a
// graph, each half the features of every fourth node, which stay in its registers from the first step to the last. The
// LSTM: a warp has four features of all 16 graphs, so that its thread (g, t) has all gates of feature 4 warp + t of
// graphs g and g + 8. Between the turns, vectors are exchanged through shared memory.

constexpr int NODES = PNA_NODES;        // of a thread: a graph has more than 4 (NODES - 1), and 4 NODES at most
constexpr int RESIDENT = PNA_RESIDENT;  // blocks that a multiprocessor shall hold
constexpr int H = 16, HH = H * H;
constexpr int GRAPHS = 16, WARPS = 4, THREADS = 32 * WARPS, TILE = GRAPHS * H;

// What is kept of a step for a tile: its states, reads and memories (these as the threads have them), and of each graph
// the greatest logit and the exponentials' factor, so that backward knows the attention from the logits alone.
constexpr int READ = TILE, MEMORY = 2 * TILE, FACTORS = 3 * TILE, KEPT = 3 * TILE + 2 * GRAPHS;

struct alignas(8) Pair {
  float x, y;
};

#ifndef EMULATED
INLINE float from_lane(float a, int apart) { return __shfl_xor_sync(0xffffffffu, a, apart); }

INLINE void warp_barrier() { __syncwarp(); }

INLINE void copy_later(float *shared, const float *global) {  // four numbers
  unsigned place = __cvta_generic_to_shared(shared);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(global) : "memory");
}

INLINE void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

template <class Shared>
INLINE Shared &shared_as() {
  __shared__ Shared shared;
  return shared;
}
#endif

INLINE Pair get2(const float *place) { return *(const Pair *)place; }

INLINE void put2(float *place, Pair a) { *(Pair *)place = a; }

// Where a graph's feature is in a tile in shared memory. Each graph has another order of its four quarters, so that
// threads meet in no bank: neither those of one feature or quarter of many graphs, nor those of a whole graph.
INLINE int at(int graph, int feature) { return graph * H + (feature ^ (graph & 2) << 2 ^ (graph & 4)); }

constexpr int EIGHT = 8 * H;  // graphs further on, the order is the same

// ---- The attention: thread j of the eight that have a graph ---------------------------------------------------------

INLINE int thread_graph() { return threadIdx.x >> 3; }
INLINE int thread_j() { return threadIdx.x & 7; }

// Half the features of a node or graph: 0 … 7 or 8 … 15. The four with the thread's own, 2j and 2j + 1, are first: so
// `scattered` need not ask which it shall send.
struct Vector {
  float v[8];
};

INLINE int quarter(int k) { return (thread_j() & 4) * 2 + ((thread_j() & 2) * 2 ^ 4 * k); }

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

// The sum over the four threads that have the same features, of which each takes its own.
INLINE Pair scattered(Vector &a) {
#pragma unroll
  for (int i = 0; i < 4; i++) a.v[i] += from_lane(a.v[i + 4], 2);
  bool odd = thread_j() & 1;
  float x = from_lane(odd ? a.v[0] : a.v[2], 1), y = from_lane(odd ? a.v[1] : a.v[3], 1);
  Pair mine = own(a);
  return {mine.x + x, mine.y + y};
}

// Over the four threads that have different nodes.
INLINE float sum_of_nodes(float a) {
  a += from_lane(a, 1);
  return a + from_lane(a, 2);
}

INLINE float max_of_nodes(float a) {
  a = fmaxf(a, from_lane(a, 1));
  return fmaxf(a, from_lane(a, 2));
}

// Where the thread's k-th node is in [G, N, H], or null if there is none.
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
  return sum + from_lane(sum, 4);  // the other features
}

INLINE void add(Vector &sum, float factor, const Vector &a) {
#pragma unroll
  for (int i = 0; i < 8; i++) sum.v[i] += factor * a.v[i];
}

INLINE bool is_node(int n, int N) { return n < NODES - 1 || (thread_j() & 3) + 4 * n < N; }

// softmax over the nodes of x · state. Returns the greatest logit and the factor of the exponentials.
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

// c += A B, [16, 16] × [16, 8]: the thread has four numbers of A's row g, then of row g + 8, and four of B's column g.
// Which four is the same for both; of C it has the columns 2t and 2t + 1 of row g, then of row g + 8.
INLINE void product(float (&c)[4], const Split &a, float4 b) {
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

// Features 4t … 4t + 3 of graphs g and g + 8.
INLINE Split rows_of(const float *tile) {
  float rows[8];
#pragma unroll
  for (int i = 0; i < 2; i++) set4(rows + 4 * i, get4(tile + at(thread_g(), 4 * thread_t()) + i * EIGHT));
  return split(rows);
}

// Features g and g + 8 of graphs t, t + 4, t + 8 and t + 12: for sums over graphs.
INLINE void columns_of(float (&columns)[8], const float *tile) {
#pragma unroll
  for (int i = 0; i < 8; i++) {
    int feature = 8 * (i >> 2), graph = 4 * (i & 1);  // as `at` mixes them
    columns[i] = tile[(at(thread_t(), thread_g()) ^ feature ^ graph) + (i & 3) * 4 * H];
  }
}

struct Gates {  // before their activations: i and f of graph g, then of graph g + 8; g and o likewise
  float v[2][4];
};

INLINE float4 bias_of(const float *bias) {
  bias += thread_feature();
  return make_float4(bias[0], bias[H], bias[2 * H], bias[3 * H]);
}

INLINE Gates gates_of(float4 bias) { return {{{bias.x, bias.y, bias.x, bias.y}, {bias.z, bias.w, bias.z, bias.w}}}; }

// What `product` wants of the matrices of the state (half 0) or of the read (half 1), for gates i, f or g, o.
INLINE float4 forward_weights(const float *weights, int half, int pair) {
  int gate = 2 * pair + (thread_g() & 1), out = 4 * thread_warp() + (thread_g() >> 1);
  return get4(weights + (4 * half + gate) * HH + out * H + 4 * thread_t());
}

INLINE float activated(const Gates &gates, int gate, int row) {
  float a = gates.v[gate >> 1][2 * row + (gate & 1)];
  return gate == 2 ? tanh_of(a) : sigmoid(a);
}

#if PNA_KERNEL == 0

struct Shared {
  alignas(16) float state[TILE], read[TILE];
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) set2set_forward(
    const float *x, const float *weights, const float *bias, float *out, float *steps, int G, int N) {
  const int r = blockIdx.y, first = blockIdx.x * GRAPHS;
  Shared &shared = shared_as<Shared>();
  Vector nodes[NODES];
  load_nodes(nodes, x + (size_t)r * G * N * H, first, G, N);
  float4 w[2][2];
#pragma unroll
  for (int i = 0; i < 4; i++) w[i >> 1][i & 1] = forward_weights(weights + r * 8 * HH, i >> 1, i & 1);
  const float4 biases = bias_of(bias + r * 4 * H);
  Gates gates = gates_of(biases);  // before the first step, state and read are zeros
  float memory[2] = {};
  const int graph = first + thread_graph(), own_place = at(thread_graph(), 2 * thread_j());
  if (PNA_KEEP) steps += ((size_t)r * N * gridDim.x + blockIdx.x) * KEPT;
#pragma unroll 1
  for (int step = 0; step < N; step++) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      memory[i] = activated(gates, 1, i) * memory[i] + activated(gates, 0, i) * activated(gates, 2, i);
      shared.state[at(thread_g(), thread_feature()) + i * EIGHT] = activated(gates, 3, i) * tanh_of(memory[i]);
    }
    __syncthreads();
    Split state_rows = rows_of(shared.state);  // the state's part of the next step's gates need not wait for the read
    gates = gates_of(biases);
#pragma unroll
    for (int i = 0; i < 2; i++) product(gates.v[i], state_rows, w[0][i]);
    Vector state = get_vector(shared.state);
    float attention[NODES];
    Pair factors = attend(attention, nodes, state, N);
    Vector sum = {};
#pragma unroll
    for (int n = 0; n < NODES; n++) add(sum, attention[n], nodes[n]);
    Pair read = scattered(sum);
    put2(shared.read + own_place, read);
    if (PNA_KEEP) {
      put2(steps + 2 * threadIdx.x, get2(shared.state + own_place));
      put2(steps + READ + 2 * threadIdx.x, read);
      put2(steps + MEMORY + 2 * threadIdx.x, {memory[0], memory[1]});
      if (thread_j() == 0) put2(steps + FACTORS + 2 * thread_graph(), factors);
      steps += gridDim.x * KEPT;
    }
    __syncthreads();
    Split read_rows = rows_of(shared.read);
#pragma unroll
    for (int i = 0; i < 2; i++) product(gates.v[i], read_rows, w[1][i]);
  }
  if (graph < G) {
    out += ((size_t)r * G + graph) * 2 * H + 2 * thread_j();
    put2(out, get2(shared.state + own_place));
    put2(out + H, get2(shared.read + own_place));
  }
}

#else

struct Shared {
  alignas(16) float forward[2][2][4 * THREADS];  // what each thread wants of the matrices
  float backward[2][2][4 * THREADS];
  float bias[4 * THREADS];
  float inputs[2][2][TILE];        // state and read of a step and of the one before it
  float others[2][KEPT - MEMORY];  // their memories and factors
  float d_gates[WARPS][TILE];
  float parts[WARPS][2][TILE];  // of the gradients of state and read, by the features of the gates
  float d_state[TILE], d_read[TILE];
};

// What `product` wants for the gradient of the state (half 0) or the read (half 1), of two features of each four.
INLINE float4 backward_weights(const float *weights, int half, int pair) {
  int in = 4 * (thread_g() >> 1) + 2 * pair + (thread_g() & 1);
  const float *place = weights + 4 * half * HH + thread_feature() * H + in;
  return make_float4(place[0], place[HH], place[2 * HH], place[3 * HH]);
}

INLINE void load_weights(Shared &shared, const float *weights, const float *bias) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    *(float4 *)(shared.forward[i >> 1][i & 1] + 4 * threadIdx.x) = forward_weights(weights, i >> 1, i & 1);
    *(float4 *)(shared.backward[i >> 1][i & 1] + 4 * threadIdx.x) = backward_weights(weights, i >> 1, i & 1);
  }
  *(float4 *)(shared.bias + 4 * threadIdx.x) = bias_of(bias);
}

// What is kept of a step comes to shared memory, by all threads, while they do something else. Even steps have one
// place, odd steps the other. Before the first step all are zeros.
INLINE void load_step(Shared &shared, const float *kept, int step) {
  float *input = shared.inputs[step & 1][threadIdx.x / 64] + at(threadIdx.x / 4 % GRAPHS, 4 * thread_t());
  float *other = shared.others[step & 1] + 4 * threadIdx.x;
  const bool two = threadIdx.x < (KEPT - MEMORY) / 4;
  if (step < 0) {
    *(float4 *)input = make_float4(0, 0, 0, 0);
    if (two) *(float4 *)other = make_float4(0, 0, 0, 0);
  } else {
    kept += (size_t)step * gridDim.x * KEPT + 4 * threadIdx.x;
    copy_later(input, kept);
    if (two) copy_later(other, kept + MEMORY);
  }
}

INLINE Gates gates_of(const Shared &shared, const float (&inputs)[2][TILE]) {
  Gates gates = gates_of(get4(shared.bias + 4 * threadIdx.x));
#pragma unroll 1  // registers are dear
  for (int half = 0; half < 2; half++) {
    Split rows = rows_of(inputs[half]);
#pragma unroll
    for (int i = 0; i < 2; i++) product(gates.v[i], rows, get4(shared.forward[half][i] + 4 * threadIdx.x));
  }
  return gates;
}

// The gradients of nodes and of the state, from that of the read. Σ attention · d_attention is read · d_read.
INLINE Pair attention_backward(
    Vector (&d_nodes)[NODES], const Vector (&nodes)[NODES], const Vector &state, const Vector &d_read, Pair factors,
    float mean, int N) {
  Vector d_state = {};
#pragma unroll
  for (int n = 0; n < NODES; n++) {
    float attention = expf(dot(nodes[n], state) - factors.x) * factors.y;
    if (!is_node(n, N)) attention = 0.0f;
    float d_logit = attention * (dot(nodes[n], d_read) - mean);
    add(d_nodes[n], attention, d_read);
    add(d_nodes[n], d_logit, state);
    add(d_state, d_logit, nodes[n]);
  }
  return scattered(d_state);
}

// d: i, f, g and o before their activations, of one graph, then of the other.
INLINE void lstm_backward(
    float (&d)[8], float (&d_memory)[2], const Gates &gates, const float *d_state, Pair memory, Pair old_memory) {
#pragma unroll
  for (int k = 0; k < 2; k++) {
    float i = activated(gates, 0, k), f = activated(gates, 1, k), g = activated(gates, 2, k);
    float o = activated(gates, 3, k), t = tanh_of(k ? memory.y : memory.x);
    float grad = d_state[at(thread_g(), thread_feature()) + k * EIGHT];
    d_memory[k] += grad * o * (1 - t * t);
    d[4 * k] = d_memory[k] * g * i * (1 - i);
    d[4 * k + 1] = d_memory[k] * (k ? old_memory.y : old_memory.x) * f * (1 - f);
    d[4 * k + 2] = d_memory[k] * i * (1 - g * g);
    d[4 * k + 3] = grad * t * o * (1 - o);
    d_memory[k] *= f;
  }
}

// This warp's part of the gradients of state and read.
INLINE void inputs_backward(Shared &shared, const Split &d) {
#pragma unroll 1  // registers are dear
  for (int half = 0; half < 2; half++) {
    float c[2][4] = {};
#pragma unroll
    for (int i = 0; i < 2; i++) product(c[i], d, get4(shared.backward[half][i] + 4 * threadIdx.x));
#pragma unroll
    for (int k = 0; k < 2; k++) {
      float row[4] = {c[0][2 * k], c[0][2 * k + 1], c[1][2 * k], c[1][2 * k + 1]};
      put4(shared.parts[thread_warp()][half] + at(thread_g(), 4 * thread_t()) + k * EIGHT, row);
    }
  }
}

// After the last step there is one part: the gradients that are given.
INLINE void load_grad(Shared &shared, const float *grad, int first, int G) {
  const int graph = first + thread_graph(), place = at(thread_graph(), 2 * thread_j());
#pragma unroll
  for (int half = 0; half < 2; half++) {
    Pair given = {0.0f, 0.0f};
    if (graph < G) given = get2(grad + ((size_t)graph * 2 + half) * H + 2 * thread_j());
    put2(shared.parts[0][half] + place, given);
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++) put2(shared.parts[warp][half] + place, {0.0f, 0.0f});
  }
}

INLINE Pair sum_of_parts(const Shared &shared, int half) {
  Pair sum = {0.0f, 0.0f};
#pragma unroll
  for (int warp = 0; warp < WARPS; warp++) {
    Pair part = get2(shared.parts[warp][half] + at(thread_graph(), 2 * thread_j()));
    sum.x += part.x;
    sum.y += part.y;
  }
  return sum;
}

// Rows are this warp's four features of each gate, columns half the features of the state or of the read.
INLINE void weights_backward(float (&sums)[2][2][4], const float *d_gates, const float (&inputs)[2][TILE]) {
  float columns[8];
  columns_of(columns, d_gates);
  Split d = split(columns);
#pragma unroll
  for (int half = 0; half < 2; half++) {
    columns_of(columns, inputs[half]);
    product(sums[half][0], d, make_float4(columns[0], columns[1], columns[2], columns[3]));
    product(sums[half][1], d, make_float4(columns[4], columns[5], columns[6], columns[7]));
  }
}

INLINE void put_nodes(float *grad_x, const Vector (&d_nodes)[NODES], int first, int G, int N) {
#pragma unroll
  for (int n = 0; n < NODES; n++) {
    float *place = node_of(grad_x, n, first, G, N);
#pragma unroll
    for (int k = 0; k < 2; k++)
      if (place) put4(place + quarter(k), d_nodes[n].v + 4 * k);
  }
}

INLINE void put_weights(float *place, const float (&sums)[2][2][4]) {
#pragma unroll
  for (int i = 0; i < 8; i++) {
    int half = i >> 2, columns = i >> 1 & 1, row = thread_g() + 8 * (i & 1), out = 4 * thread_warp() + (row >> 2);
    const float *sum = sums[half][columns] + 2 * (i & 1);
    put2(place + (4 * half + (row & 3)) * HH + out * H + 8 * columns + 2 * thread_t(), {sum[0], sum[1]});
  }
}

INLINE void put_bias(float *place, float (&sums)[4]) {
#pragma unroll
  for (int gate = 0; gate < 4; gate++) {
#pragma unroll
    for (int apart = 4; apart < 32; apart *= 2) sums[gate] += from_lane(sums[gate], apart);
    if (thread_g() == 0) place[gate * H + thread_feature()] = sums[gate];
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) set2set_backward(
    const float *x, const float *weights, const float *bias, const float *steps, const float *grad, float *grad_x,
    float *grad_weights, float *grad_bias, int G, int N) {
  const int r = blockIdx.y, first = blockIdx.x * GRAPHS, me = r * gridDim.x + blockIdx.x;
  Shared &shared = shared_as<Shared>();
  Vector nodes[NODES], d_nodes[NODES] = {};
  load_nodes(nodes, x + (size_t)r * G * N * H, first, G, N);
  load_weights(shared, weights + r * 8 * HH, bias + r * 4 * H);
  const float *kept = steps + ((size_t)r * N * gridDim.x + blockIdx.x) * KEPT;
  load_step(shared, kept, N - 1);
  load_step(shared, kept, N - 2);
  load_grad(shared, grad + (size_t)r * G * 2 * H, first, G);
  float d_memory[2] = {}, of_weights[2][2][4] = {}, of_bias[4] = {};
  await_copies();
  __syncthreads();
#pragma unroll 1
  for (int step = N - 1; step >= 0; step--) {
    const int now = step & 1, own_place = at(thread_graph(), 2 * thread_j());
    const float(&old_inputs)[2][TILE] = shared.inputs[1 - now];
    Pair d_read = sum_of_parts(shared, 1);
    put2(shared.d_read + own_place, d_read);
    Pair read = get2(shared.inputs[now][1] + own_place);
    float mean = sum_of_nodes(read.x * d_read.x + read.y * d_read.y);
    mean += from_lane(mean, 4);
    warp_barrier();
    Pair more = attention_backward(
        d_nodes, nodes, get_vector(shared.inputs[now][0]), get_vector(shared.d_read),
        get2(shared.others[now] + (FACTORS - MEMORY) + 2 * thread_graph()), mean, N);
    Pair memory = get2(shared.others[now] + 2 * threadIdx.x);
    Pair d_state = sum_of_parts(shared, 0);
    put2(shared.d_state + own_place, {d_state.x + more.x, d_state.y + more.y});
    await_copies();
    __syncthreads();
    Pair old_memory = get2(shared.others[1 - now] + 2 * threadIdx.x);
    float d[8];
    lstm_backward(d, d_memory, gates_of(shared, old_inputs), shared.d_state, memory, old_memory);
    load_step(shared, kept, step - 2);
#pragma unroll
    for (int i = 0; i < 2; i++)
      put4(shared.d_gates[thread_warp()] + at(thread_g(), 4 * thread_t()) + i * EIGHT, d + 4 * i);
#pragma unroll
    for (int i = 0; i < 8; i++) of_bias[i & 3] += d[i];
    inputs_backward(shared, split(d));
    __syncthreads();
    weights_backward(of_weights, shared.d_gates[thread_warp()], old_inputs);
  }
  put_nodes(grad_x + (size_t)r * G * N * H, d_nodes, first, G, N);
  put_weights(grad_weights + (size_t)me * 8 * HH, of_weights);
  put_bias(grad_bias + me * 4 * H, of_bias);
}

#endif
