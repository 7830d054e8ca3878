// All layers forward: see layer.cuh.

constexpr bool KEEP = PNA_KEEP;
constexpr int STRIDE = 5 * H;  // of a row: p and q of two layers, GAT's statistics; odd, to keep banks apart

// Adds the products of one aggregate with U's blocks, one for each scaler.
INLINE void combine(Rows (&sums)[S], const Rows &aggregate, const float *T, int a) {
#pragma unroll
  for (int s = 0; s < S; s++) towers(sums[s], aggregate, T + (COMBINED + s * A + a) * BLOCK);
}

// PNA's y from x: p and q, the senders' and receivers' parts of the messages, go through shared memory.
INLINE Rows updated(const Rows &x, float *p, const Nodes &nodes, const float (&factors)[S][2], const float *T,
                    const float *bias) {
  float *q = p + H;
  Words words = first_words(nodes);
  Rows sender = zeros(), receiver = zeros();
  towers(sender, x, T + SENDER * BLOCK);
  towers(receiver, x, T + RECEIVER * BLOCK);
  put(p, sender, STRIDE);
  put(q, receiver, STRIDE);
  __syncthreads();
  Gathered all = gather<false, STRIDE>(p, q, nodes, words);
  Rows own_p = get(p, STRIDE), own_q = get(q, STRIDE), of_M = bias_rows(bias);
  Rows sums[S];
#pragma unroll
  for (int s = 0; s < S; s++) sums[s] = s == 0 ? bias_rows(bias + H) : zeros();
  Rows mean = shifted(all.mean, own_q, of_M, nodes);
  if (MEAN >= 0) combine(sums, mean, T, MEAN);
  if (STD >= 0) combine(sums, all.deviation, T, STD);
#pragma unroll
  for (int n = 3; n <= ORDER; n++)
    if (moment(n) >= 0) combine(sums, root(all, n).value, T, moment(n));
  if (MAX >= 0) combine(sums, shifted(all.top, SWAP ? own_p : own_q, of_M, nodes), T, MAX);
  if (MIN >= 0) combine(sums, shifted(all.low, SWAP ? own_p : own_q, of_M, nodes), T, MIN);
#pragma unroll
  for (int k = 0; k < 2; k++)
    if (soft(k) >= 0) combine(sums, shifted(all.softs[k], own_q, of_M, nodes), T, soft(k));
  if (SUM >= 0) combine(sums, times_degree(mean, nodes), T, SUM);
  towers(sums[0], x, T + OWN * BLOCK);
#pragma unroll
  for (int s = 1; s < S; s++)
#pragma unroll
    for (int i = 0; i < 2 * F; i++) sums[0].v[i] += factors[s][i / F] * sums[s].v[i];
  return sums[0];
}

// GAT's `out` from h.
INLINE Rows attention_of(const Rows &h, float *p, float *stats, const float *a, const Nodes &nodes, const int *routes,
                         int V, int messages) {
  Routes all = routes_of(routes, V, messages);
  const unsigned *segments[2];
#pragma unroll
  for (int i = 0; i < 2; i++) segments[i] = (OVER_SENT ? all.sent : nodes.words) + nodes.start[i];
  put_heads(h, p, p + H, a, STRIDE);
  __syncthreads();
  put_statistics(p + H, stats, segments, nodes, STRIDE);
  __syncthreads();
  return attended(p, p + H, stats, nodes, STRIDE);
}

// Depth by convergence: a graph ends with the layer in which no feature of its nodes changed by the threshold or more,
// or some feature became NaN. Changes are compared as the bits of their absolute values: these order floats as
// integers, with NaN above all numbers.
INLINE void end_graphs(Layers &own, const Rows &before, const Rows &after, int *moved, int *depths, const Nodes &nodes,
                       int N, int layer, int threshold) {
  const int first = blockIdx.x * (ROWS / N * N);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int most = 0;
#pragma unroll
    for (int c = F * i; c < F * i + F; c++) {
      int bits = __float_as_int(after.v[c] - before.v[c]) & 0x7fffffff;
      most = bits > most ? bits : most;
    }
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) {
      int other = from_lane(most, apart);
      most = other > most ? other : most;
    }
    if (thread_t() == 0 && nodes.node[i] >= 0) atomicMax(moved + (nodes.node[i] - first) / N, most);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (layer >= own.node[i]) continue;
    int most = moved[(nodes.node[i] - first) / N];
    if (most >= threshold && most <= 0x7f800000) continue;
    own.node[i] = layer + 1;
    if (thread_t() == 0) depths[nodes.node[i]] = layer + 1;
  }
  const bool goes_on = __syncthreads_or(own.node[0] > layer + 1 || own.node[1] > layer + 1);
  if (!SPLIT && !goes_on) own.block = layer + 1;
  if (threadIdx.x < ROWS) moved[threadIdx.x] = 0;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) recurrence_forward(
    const float *x, float *out, float *states, const int *node, const int *lists, const unsigned *words,
    const float *delta, const float *tower_weights, const float *mix_weights, const float *conv_bias,
    const float *gru_weights, const float *gru_bias, const int *routes, int *depths, const float *dropout,
    const float *norm_weights, float *statistics, float *parts, int V, int layers, int messages, int N, int threshold,
    int step) {
  const int r = blockIdx.y;
  float *T = (float *)shared_memory, *mix = T + TOWERS, *biases = mix + HH, *planes = biases + BIASES * H;
  float *G = planes + ROWS * STRIDE, *of_gru = G + GRU * 6 * HH, *norm = of_gru + GRU * 6 * H;
  int *moved = (int *)(norm + GIN * (SCRATCH + 2 * THREADS));  // largest change in each graph, in one layer
  if (UNTIL && threadIdx.x < ROWS) moved[threadIdx.x] = 0;
  if (GRU) load(G, gru_weights + r * 6 * HH, 6 * HH);
  if (GRU) load(of_gru, gru_bias + r * 6 * H, 6 * H);
  Nodes nodes = nodes_of(node, lists, words);
  Layers own = layers_of(depths += (size_t)r * V, nodes.node, layers);
  float factors[S][2];
  scaler_factors(factors, nodes, delta[r]);
  Input input = input_of(x, nodes.node);
  Rows state = input.state, given = input.convolution;
  const int start = SPLIT && step > 0 ? step - 1 : 0;  // a launch ends one layer and begins the next
  if (start > 0) state = given_of(states, start);
  for (int layer = start; layer < own.block; layer++) {
    const size_t k = (size_t)r * CONVOLUTIONS + (layer < CONVOLUTIONS ? layer : CONVOLUTIONS - 1);
    if (layer < CONVOLUTIONS || layer == start) {
      __syncthreads();
      load(T, tower_weights + k * TOWERS, TOWERS);
      load(mix, mix_weights + k * HH, HH);
      load(biases, conv_bias + k * BIASES * H, BIASES * H);
      if (GIN) load(norm + SHIFT, norm_weights + k * 2 * H, 2 * H);
      __syncthreads();
    }
    float *p = planes + layer % 2 * 2 * H;
    Rows y = zeros(), z = bias_rows(biases + (BIASES - 1) * H);
    if (GCN) {
      product(y, split(given), mix);
      y = neighbour_sum<STRIDE>(y, p, nodes);
    } else if (GAT) {
      product(y, split(given), mix);
      y = attention_of(y, p, planes + 4 * H, biases, nodes, routes, V, messages);
    } else if (GIN) {
      const bool begins = SPLIT && layer == step;
      const size_t at = ((size_t)layer * gridDim.y + r) * gridDim.x * 2 * H;
      if (!SPLIT || begins) y = first_of_two<STRIDE>(given, p, T, biases, nodes);
      if (begins) {
        if (STATES && layer > 0) put(states + kept_at(layer, 0), state);
        put(states + kept_at(layer, 1), y);
        put_part(parts + at + blockIdx.x * 2 * H, y, p + H, norm, nodes, {V, N}, STRIDE);
        return;
      }
      if (SPLIT) y = get(states + kept_at(layer, 1));
      statistics_of(norm, statistics + (SPLIT ? (size_t)r * layers + layer : k) * 2 * H, SPLIT ? parts + at : nullptr,
                    {V, N});
      product(z, split(normalised(standardised(y, norm, nodes), norm, nodes)), mix);
    } else {
      y = updated(given, p, nodes, factors, T, biases);
      product(z, split(y), mix);
    }
#pragma unroll
    for (int i = 0; i < 2 * F; i++) {
      if (GCN) z.v[i] += y.v[i];
      z.v[i] = GAT ? (y.v[i] > 0 ? y.v[i] : expm1f(y.v[i])) : z.v[i] > 0 ? z.v[i] : SLOPE * z.v[i];
    }
    if (KEEP) {
      if (STATES && layer > 0 && !SPLIT) put(states + kept_at(layer, 0), state);
      if (!GCN && !SPLIT) put(states + kept_at(layer, 1), y);
      put(states + kept_at(layer, 2), z);
    }
    if (DROP) drop(z, staying(dropout + k * 3, nodes.node, layer));
    if (GRU) {
      Gates gates = gru(split(state), split(z), G, of_gru);
#pragma unroll
      for (int i = 0; i < 2 * F; i++) z.v[i] = gates.n.v[i] + gates.u.v[i] * (z.v[i] - gates.n.v[i]);
    }
    if (UNTIL && layer > 0) end_graphs(own, state, z, moved, depths, nodes, N, layer, threshold);
#pragma unroll
    for (int i = 0; i < 2 * F; i++)
      if (!DEPTHS || layer < own.node[i / F]) state.v[i] = z.v[i];
    given = state;
    if (EVERY || layer == own.block - 1)
#pragma unroll
      for (int i = 0; i < 2; i++)
        if (nodes.node[i] >= 0) {
          size_t place = ((size_t)r * V + nodes.node[i]) * OUTPUTS + (EVERY ? layer : 0);
          put_n<F>(out + place * H + F * thread_t(), given.v + F * i);
        }
  }
}
