// All steps of Set2Set backward, and the gradients of the weights: see readout.cuh.

struct Shared {
  alignas(16) float forward[2][CHUNKS][2][4 * THREADS];  // weights in the order in which the threads read them
  float backward[2][CHUNKS][2][4 * THREADS];
  float bias[4 * THREADS];
  float inputs[2][2][TILE];        // state and read of this step and of the one before
  float others[2][KEPT - MEMORY];  // their memories and factors
  float d_gates[WARPS][GRAPHS * 16];
  float parts[WARPS][2][TILE];  // partial gradients of state and read, by warp
  float d_state[TILE], d_read[TILE];
};

// Weights for `product` in the gradient of the state (half 0) or the read (half 1), for two features of each four.
INLINE float4 backward_weights(const float *weights, int half, int pair, int chunk) {
  int in = 16 * chunk + 4 * (thread_g() >> 1) + 2 * pair + (thread_g() & 1);
  const float *place = weights + 4 * half * HH + thread_feature() * H + in;
  return make_float4(place[0], place[HH], place[2 * HH], place[3 * HH]);
}

INLINE void load_weights(Shared &shared, const float *weights, const float *bias) {
#pragma unroll
  for (int i = 0; i < 4 * CHUNKS; i++) {
    const int half = i & 1, pair = i >> 1 & 1, chunk = i >> 2;
    *(float4 *)(shared.forward[half][chunk][pair] + 4 * threadIdx.x) = forward_weights(weights, half, pair, chunk);
    *(float4 *)(shared.backward[half][chunk][pair] + 4 * threadIdx.x) = backward_weights(weights, half, pair, chunk);
  }
  *(float4 *)(shared.bias + 4 * threadIdx.x) = bias_of(bias);
}

// Starts copying what was kept of a step to shared memory, which overlaps with other work. Even and odd steps have a
// buffer each; before the first step all values are zero.
INLINE void load_step(Shared &shared, const float *kept, int step) {
  const int quarters = H / 4;
  float *input = shared.inputs[step & 1][threadIdx.x / (GRAPHS * quarters)];
  input += at(threadIdx.x / quarters % GRAPHS, threadIdx.x % quarters * 4);
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
#pragma unroll 1  // unrolled, it would need too many registers
  for (int k = 0; k < 2 * CHUNKS; k++) {
    Split<8> rows = rows_of(inputs[k / CHUNKS], k % CHUNKS);
#pragma unroll
    for (int i = 0; i < 2; i++)
      product(gates.v[i], rows, get4(shared.forward[k / CHUNKS][k % CHUNKS][i] + 4 * threadIdx.x));
  }
  return gates;
}

// Gradients of nodes and state from that of the read. `mean` is Σ attention · d_attention, equal to read · d_read.
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

// Writes to d the gradients of i, f, g and o before their activations, for graph g, then for graph g + 8.
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

// Writes this warp's part of the gradients of state and read.
INLINE void inputs_backward(Shared &shared, const Split<8> &d) {
#pragma unroll 1  // unrolled, it would need too many registers
  for (int n = 0; n < 2 * CHUNKS; n++) {
    const int half = n / CHUNKS, chunk = n % CHUNKS;
    float c[2][4] = {};
#pragma unroll
    for (int i = 0; i < 2; i++) product(c[i], d, get4(shared.backward[half][chunk][i] + 4 * threadIdx.x));
#pragma unroll
    for (int k = 0; k < 2; k++) {
      float row[4] = {c[0][2 * k], c[0][2 * k + 1], c[1][2 * k], c[1][2 * k + 1]};
      put4(shared.parts[thread_warp()][half] + at(thread_g(), 16 * chunk + 4 * thread_t()) + k * EIGHT, row);
    }
  }
}

// Loads the gradients of the outputs as the first warp's part; the other parts are zero.
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

// Adds to the weights' gradients: rows are this warp's four features of each gate, columns features of state or read.
INLINE void weights_backward(float (&sums)[2][2 * CHUNKS][4], const float *d_gates, const float (&inputs)[2][TILE]) {
  float columns[8];
  columns_of<16>(columns, d_gates, 0);
  Split<8> d = split(columns);
#pragma unroll
  for (int k = 0; k < 2 * CHUNKS; k++) {
    float(*sum)[4] = sums[k / CHUNKS] + 2 * (k % CHUNKS);
    columns_of(columns, inputs[k / CHUNKS], k % CHUNKS);
    product(sum[0], d, make_float4(columns[0], columns[1], columns[2], columns[3]));
    product(sum[1], d, make_float4(columns[4], columns[5], columns[6], columns[7]));
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

INLINE void put_weights(float *place, const float (&sums)[2][2 * CHUNKS][4]) {
#pragma unroll
  for (int i = 0; i < 8 * CHUNKS; i++) {
    int half = i >> 1 & 1, columns = i >> 2, row = thread_g() + 8 * (i & 1), out = 4 * thread_warp() + (row >> 2);
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
  float d_memory[2] = {}, of_weights[2][2 * CHUNKS][4] = {}, of_bias[4] = {};
  await_copies();
  __syncthreads();
#pragma unroll 1
  for (int step = N - 1; step >= 0; step--) {
    const int now = step & 1, own_place = at(thread_graph(), 2 * thread_j());
    const float(&old_inputs)[2][TILE] = shared.inputs[1 - now];
    Pair d_read = sum_of_parts(shared, 1);
    put2(shared.d_read + own_place, d_read);
    Pair read = get2(shared.inputs[now][1] + own_place);
    float mean = sum_of_features(sum_of_nodes(read.x * d_read.x + read.y * d_read.y));
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
      put4(shared.d_gates[thread_warp()] + at<16>(thread_g(), 4 * thread_t()) + i * 8 * 16, d + 4 * i);
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
