// All steps of Set2Set forward: see readout.cuh.

struct Shared {
  alignas(16) float state[TILE], read[TILE];
};

INLINE void add_products(Gates &gates, const float *tile, const float4 (&w)[CHUNKS][2]) {
#pragma unroll
  for (int chunk = 0; chunk < CHUNKS; chunk++) {
    Split<8> rows = rows_of(tile, chunk);
#pragma unroll
    for (int i = 0; i < 2; i++) product(gates.v[i], rows, w[chunk][i]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) set2set_forward(
    const float *x, const float *weights, const float *bias, float *out, float *steps, int G, int N) {
  const int r = blockIdx.y, first = blockIdx.x * GRAPHS;
  Shared &shared = shared_as<Shared>();
  Vector nodes[NODES];
  load_nodes(nodes, x + (size_t)r * G * N * H, first, G, N);
  float4 w[2][CHUNKS][2];
#pragma unroll
  for (int i = 0; i < 4 * CHUNKS; i++)
    w[i & 1][i >> 2][i >> 1 & 1] = forward_weights(weights + r * 8 * HH, i & 1, i >> 1 & 1, i >> 2);
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
    gates = gates_of(biases);
    add_products(gates, shared.state, w[0]);  // for the next step's gates, before the read is known
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
    add_products(gates, shared.read, w[1]);
  }
  if (graph < G) {
    out += ((size_t)r * G + graph) * 2 * H + 2 * thread_j();
    put2(out, get2(shared.state + own_place));
    put2(out + H, get2(shared.read + own_place));
  }
}
