// All layers backward: see layer.cuh.

// The GRU: from the gradient of the new state, returns that of the old state and writes that of z to d_z.
INLINE Rows gru_backward(const Rows &grad, const Rows &state, const Rows &out, Rows &d_z, float *tile, const float *G,
                         const float *back, const float *bias) {
  put(tile + X, state, STRIDE);
  put(tile + Z, out, STRIDE);
  Gates s = gru(split(state), split(out), G, bias);
  Rows d_r, d_u, d_n, d_b, down = zeros();
#pragma unroll
  for (int i = 0; i < 2 * F; i++) {
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
  Split<2 * F> half = split(d_r);
  product(down, half, back);
  product(d_z, half, back + 3 * HH);
  half = split(d_u);
  product(down, half, back + HH);
  product(d_z, half, back + 4 * HH);
  product(down, split(d_n), back + 2 * HH);
  product(d_z, split(d_b), back + 5 * HH);
  return down;
}

// GCN's convolution: from the gradient of z before LeakyReLU, adds the gradient of the convolution's input to `down`.
INLINE void gcn_backward(Rows &down, const Rows &d_z, const Rows &given, float *tile, const float *mix,
                         const Nodes &nodes, Sums &sums) {
  put(tile + X, given, STRIDE);
  Rows d_h = neighbour_sum<STRIDE>(d_z, tile + P, nodes);
  put(tile + D_Y, d_h, STRIDE);
  product(down, split(d_h), mix);
  __syncthreads();
  sum_dense(sums, tile);
}

// GAT's convolution. The gradient of a logit is w_ij (g_i·h_j - T) with T = Σ w g·h over its segment. T = g_i·out_i if
// the segment belongs to i; T = h_j·(Σ_i w_ij g_i), known after a first pass, if it belongs to j (D6). `grads`,
// [messages, 4], holds the gradients of left + right.
INLINE void gat_backward(Rows &down, const Rows &g, const Rows &given, const Rows &out, float *tile, const float *mix,
                         const float *W, const float *a, const Nodes &nodes, const Routes &routes, float *grads,
                         Sums &sums) {
  const int t = thread_t();
  Rows h = zeros(), d_h = zeros(), of_left, of_right;
  product(h, split(given), W);
  put(tile + X, given, STRIDE);
  put_heads(h, tile + P, tile + Q, a, STRIDE);
  const unsigned *sent[2], *segments[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    sent[i] = routes.sent + nodes.start[i];
    segments[i] = OVER_SENT ? sent[i] : nodes.words + nodes.start[i];
    put_scalars(tile + D_Y, i, dot(g.v + F * i, out.v + F * i), 0.0f, STRIDE);
  }
  __syncthreads();
  put_statistics(tile + Q, tile + Y, segments, nodes, STRIDE);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; i++) {
    float *mine = grads + (nodes.start[i] - routes.first) * 4 + t, all = 0.0f;
#pragma unroll
    for (int pass = 0; pass < (OVER_SENT ? 2 : 1); pass++) {
      for (int k = 0; k < nodes.degree[i]; k++) {
        Message m = message_of(sent[i][k]);
        float theirs[F], sum = sum_of(tile + Q, m, STRIDE);
        float weight = weight_of(sum, tile + Y, OVER_SENT ? warp_row() + 8 * i : m.other, STRIDE);
        get_n<F>(theirs, tile + D_Z + m.other * STRIDE + F * t);
        float T = OVER_SENT ? all : tile[D_Y + m.other * STRIDE + F * t];
        mine[4 * k] = weight * (sum > 0 ? 1.0f : 0.2f) * (dot(theirs, h.v + F * i) - T);
        if (pass == 0)
#pragma unroll
          for (int c = 0; c < F; c++) d_h.v[F * i + c] += weight * theirs[c];
      }
      all = dot(h.v + F * i, d_h.v + F * i);
    }
  }
  __syncthreads();
  Rows first = bias_rows(a), second = bias_rows(a + H);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    float left = 0.0f, right = 0.0f;
    const int n = nodes.node[i];
    if (n >= 0) {
      for (int k = routes.left_ptr[n]; k < routes.left_ptr[n + 1]; k++)
        left += grads[(routes.left_place[k] - routes.first) * 4 + t];
      for (int k = routes.right_ptr[n]; k < routes.right_ptr[n + 1]; k++)
        right += grads[(routes.right_place[k] - routes.first) * 4 + t];
    }
#pragma unroll
    for (int c = 0; c < F; c++) {
      int j = F * i + c;
      d_h.v[j] += left * first.v[j] + right * second.v[j];
      of_left.v[j] = left * h.v[j], of_right.v[j] = right * h.v[j];
    }
  }
  __syncwarp();
  put(tile + D_Y, d_h, STRIDE);
  put(tile + Y, of_left, STRIDE);
  put(tile + Q, of_right, STRIDE);
  product(down, split(d_h), mix);
  __syncthreads();
  sum_dense(sums, tile);
}

// GIN's convolution above the sums over all nodes: from the gradient of z before ReLU to that of n.
INLINE void gin_above(const Rows &d_z, const Rows &down, const Rows &a, float *tile, const float *mix, float *norm,
                      float *part, float *between, const Nodes &nodes, Batch b, Sums &sums, float *to) {
  Rows standard = standardised(a, norm + NEXT, nodes), d_n = zeros(), product_of;
  put(tile + Y, normalised(standard, norm, nodes), STRIDE);
  product(d_n, split(d_z), mix);
#pragma unroll
  for (int i = 0; i < 2 * F; i++) product_of.v[i] = d_n.v[i] * standard.v[i];
  put(between + kept_at(0, 0), down);
  put(between + kept_at(0, 1), d_n);
  put_columns(tile + P, d_n, nodes, b, STRIDE);
  put_columns(tile + Q, product_of, nodes, b, STRIDE);
  __syncthreads();
  sum_dense(sums, tile);
  if (role() == 3) put_dense<ONE_N, false>(sums.dense, to, to + HH + 2 * H);
  column_sums(
      norm, tile_nodes(b, blockIdx.x),
      [=](int k, int c) { return Pair{tile[k * STRIDE + P + c], tile[k * STRIDE + Q + c]}; },
      [=](int c, Pair sum) { part[c] = sum.x, part[H + c] = sum.y; });
}

// GIN's convolution below those sums: adds the gradient of its input to `down`; T is W₁ transposed. With t = M x, M
// symmetric, and s = M d_a, that gradient is s W₁ and W₁'s is sᵀ x: one sum over neighbours serves both.
INLINE void gin_below(Rows &down, const Rows &d_n, const Rows &a, const Rows &given, float *tile, const float *T,
                      const float *biases, float *norm, const float *parts, const Nodes &nodes, Batch b, float *to,
                      float *of_norm) {
  column_sums(
      norm, gridDim.x, [=](int k, int c) { return Pair{parts[2 * k * H + c], parts[(2 * k + 1) * H + c]}; },
      [=](int c, Pair sum) {
        norm[TOTAL + c] = sum.x / b.V, norm[PRODUCT + c] = sum.y / b.V;
        if (blockIdx.x == 0) put_sum(of_norm + c, sum.x), put_sum(of_norm + H + c, sum.y);
      });
  __syncthreads();
  Rows standard = standardised(a, norm, nodes), total = of_columns(norm + TOTAL, nodes);
  Rows products = of_columns(norm + PRODUCT, nodes), scale = of_columns(norm + SCALE, nodes);
  Rows inverses = of_columns(norm + INVERSE, nodes), d_a, d_t = zeros(), of_own;
#pragma unroll
  for (int i = 0; i < 2 * F; i++) {
    float d = scale.v[i] * inverses.v[i] * (d_n.v[i] - total.v[i] - standard.v[i] * products.v[i]);
    d_a.v[i] = nodes.node[i / F] >= 0 && a.v[i] > 0 ? d : 0.0f;
  }
  product(d_t, split(d_a), T);
#pragma unroll
  for (int i = 0; i < 2 * F; i++) of_own.v[i] = d_t.v[i] * given.v[i];
  put(tile + Q, given, STRIDE);
  put(tile + Z, of_own, STRIDE);
  Rows s = neighbour_sum<STRIDE>(d_a, tile + D_Y, nodes, biases[0]);
  put(tile + P, s, STRIDE);
  product(down, split(s), T);
  sync_half();
#pragma unroll 1
  for (int k = role(); k < COLUMNS + 2; k += 4) {  // eight columns of W₁'s gradient, or b₁'s, or that of 1 + ε
    const float *left = tile + (k < COLUMNS ? P : k == COLUMNS ? D_Y : Z), *right = tile + Q + 8 * k;
    float c[DENSE_M][4];
    clear(c);
    outer<DENSE_M, 1>(
        c, [=](int row, int j) { return left[row * STRIDE + 8 * j + thread_g()]; },
        [=](int row, int) { return k < COLUMNS ? right[row * STRIDE + thread_g()] : 1.0f; });
    each<DENSE_M, 1>(c, [=](int row, int column, float value) {
      if (row >= H) return;
      if (k >= COLUMNS && column == 0) put_sum(to + HH + (k == COLUMNS ? H : 0) + row, value);
      else if (8 * k + column < H) put_sum(to + HH + 3 * H + row * H + 8 * k + column, value);
    });
  }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) recurrence_backward(
    const float *x, const float *grad_out, const float *states, const int *node, const int *lists,
    const unsigned *words, const float *delta, const float *tower_weights, const float *mix_weights,
    const float *conv_bias, const float *gru_weights, const float *gru_bias, const int *routes, const int *depths,
    const float *dropout, const float *norm_weights, float *statistics, float *parts, float *between,
    float *grad_convolutions, float *grad_gru, float *grad_norm, int V, int layers, int messages, int N, int step) {
  const int r = blockIdx.y;
  float *mix = (float *)shared_memory, *T = mix + HH, *bias = T + (GAT ? HH : TOWERS), *of_rows = bias + BIASES * H;
  float *tile = of_rows + S * ROWS, *G = tile + ROWS * STRIDE, *back = G + GRU * 6 * HH, *of_gru = back + GRU * 6 * HH;
  float *of_messages = of_gru + GRU * 6 * H, *norm = of_messages;  // for GAT, and for GIN
  if (GRU) {
    load(G, gru_weights + r * 6 * HH, 6 * HH);
    load_transposed(back, gru_weights + r * 6 * HH, 6);
    load(of_gru, gru_bias + r * 6 * H, 6 * H);
  }
  if (SPLIT && step > 0) prefetch_kept(states, step - 1);
  Nodes nodes = nodes_of(node, lists, words);
  const Layers own = layers_of(depths + (size_t)r * V, nodes.node, layers);
  float factors[S][2];
  scaler_factors(factors, nodes, delta[r]);
  if (thread_t() == 0)
#pragma unroll
    for (int s = 0; s < S; s++)
#pragma unroll
      for (int i = 0; i < 2; i++)
        of_rows[s * ROWS + warp_row() + 8 * i] = nodes.degree[i] > 0 ? factors[s][i] : 0.0f;
  if (GIN && threadIdx.x < 2 * H) {  // statistics of the layer that this launch ends and of the next
    const int layer = step - threadIdx.x / H, c = threadIdx.x % H;
    const float *of_layer = statistics + ((size_t)r * layers + layer) * 2 * H;
    if (0 <= layer && layer < layers) know(norm + threadIdx.x / H * NEXT, c, of_layer[c], of_layer[H + c]);
  }
  grad_out += (size_t)r * V * OUTPUTS * H + F * thread_t();
  Rows grad = EVERY || SPLIT && step < layers ? zeros() : of_nodes(grad_out, nodes.node, H, 0);
  Sums sums;
  clear(sums.dense);
  clear(sums.combined);
  clear(sums.projections);
  if (!SPLIT)
    for (int k = own.block; k < CONVOLUTIONS; k++) put_convolution(grad_convolutions, k, sums);  // unused: zeros
  const int start = SPLIT && step < layers ? step : own.block - 1;  // a launch ends one layer and begins the next
  for (int layer = start; layer >= 0; layer--) {
    const size_t k = (size_t)r * CONVOLUTIONS + (layer < CONVOLUTIONS ? layer : CONVOLUTIONS - 1);
    if (layer == start || layer < CONVOLUTIONS - 1) {
      __syncthreads();
      if (GIN) load_transposed(T, tower_weights + k * HH, 1);
      else load(T, GAT ? mix_weights + k * HH : tower_weights + k * TOWERS, GAT ? HH : TOWERS);
      if (GIN) load(norm + SHIFT, norm_weights + k * 2 * H, 2 * H);
      load_transposed(mix, mix_weights + k * HH, 1);
      load(bias, conv_bias + k * BIASES * H, BIASES * H);
      __syncthreads();
    }
    Rows state, given, z = get(states + kept_at(layer, 2)), d_z, down = zeros();
    if (layer == 0) {
      Input input = input_of(x, nodes.node);
      state = input.state, given = input.convolution;
    } else {
      state = given = given_of(states, layer);
    }
    const size_t at = ((size_t)layer * gridDim.y + r) * gridDim.x * 2 * H;
    float *to = convolution_of(grad_convolutions, layer);
    if (GIN && layer == step) {
      grad = get(between + kept_at(0, 0));
      gin_below(grad, get(between + kept_at(0, 1)), get(states + kept_at(layer, 1)), given, tile, T, bias, norm,
                parts + at, nodes, {V, N}, to, grad_norm + k * 2 * H);
      continue;
    }
    Rows ended = zeros();  // gradients of nodes that this layer did not change
#pragma unroll
    for (int i = 0; i < 2 * F; i++)
      if (DEPTHS && layer >= own.node[i / F]) ended.v[i] = grad.v[i], grad.v[i] = 0;
    Staying stay;
    if (DROP) drop(z, stay = staying(dropout + k * 3, nodes.node, layer));
    if (GRU) {
      down = gru_backward(grad, state, z, d_z, tile, G, back, of_gru);
    } else {
      d_z = grad;
    }
#pragma unroll
    for (int i = 0; DEPTHS && i < 2 * F; i++) down.v[i] += ended.v[i];
    if (EVERY) {
      Rows own = of_nodes(grad_out, nodes.node, OUTPUTS * H, layer * H);
#pragma unroll
      for (int i = 0; i < 2 * F; i++) d_z.v[i] += own.v[i];
    }
    if (DROP) drop(d_z, stay);
#pragma unroll
    for (int i = 0; i < 2 * F; i++) {
      if (GAT && DROP) z.v[i] /= stay.factor;  // as before dropout, unless it was dropped: then d_z is zero
      d_z.v[i] *= z.v[i] > 0 ? 1.0f : GAT ? z.v[i] + 1 : SLOPE;
    }
    put(tile + D_Z, d_z, STRIDE);
    if (GCN) {
      gcn_backward(down, d_z, given, tile, mix, nodes, sums);
    } else if (GAT) {
      gat_backward(down, d_z, given, get(states + kept_at(layer, 1)), tile, mix, T, bias, nodes,
                   routes_of(routes, V, messages), of_messages, sums);
    } else if (GIN) {
      gin_above(d_z, down, get(states + kept_at(layer, 1)), tile, mix, norm, parts + at + blockIdx.x * 2 * H, between,
                nodes, {V, N}, sums, to);
      break;
    } else {
      pna_backward(down, d_z, given, tile, mix, T, bias, of_rows, nodes, sums, x, states, layer);
    }
    grad = down;
    sync_half();
    if (layer < CONVOLUTIONS) {
      put_convolution(grad_convolutions, layer, sums);
      clear(sums.combined);
      clear(sums.projections);
      if (role() == 3) clear(sums.dense);
    }
  }
  if (GRU && (!SPLIT || step > 0)) put_gru(grad_gru, sums);
}
