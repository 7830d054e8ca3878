// All layers backward: see layer.cuh.

// Asks for what the next layer reads: memory is far.
INLINE void prefetch_kept(const float *states, int layer) {
  const int which = thread_t();
  if (which < 3 && (which > 0 || (GRU && layer > 0)))
#pragma unroll
    for (int i = 0; i < 2; i++) prefetch(states + kept_at(layer, which) + (warp_row() + 8 * i) * H);
}

// What the convolution of a later layer was given: the state before it, or the output of the layer below.
INLINE Rows given_of(const float *states, int layer) {
  return get(states + (GRU ? kept_at(layer, 0) : kept_at(layer - 1, 2)));
}

// The GRU: the gradient of the new state -> of the state so far, and of z.
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

// The mixing layer: the gradient of z, before LeakyReLU -> that of y at D_Y.
INLINE void mixing_backward(const Rows &d_z, const float *y, float *tile, const float *mix) {
  Rows d_y = zeros();
  put(tile + Y, get(y), STRIDE);
  product(d_y, split(d_z), mix);
  put(tile + D_Y, d_y, STRIDE);
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
// level + steep c, and more if it is an extreme, with c = m - centre; the centre, p of the tile's first row, is near the
// mean. With moments, level + steep c + curves[0] c² + …, the centre is the node's own mean.
INLINE Received coefficients(const Gathered &all, float *tile, const float *T, const float *bias,
                             const float (&factors)[S][2], const Nodes &nodes) {
  if (MEAN >= 0) put(tile + MEAN * H, all.mean, STRIDE);
  if (STD >= 0) put(tile + STD * H, all.deviation, STRIDE);
  if (MAX >= 0) put(tile + MAX * H, all.top, STRIDE);
  if (MIN >= 0) put(tile + MIN * H, all.low, STRIDE);
  if (SUM >= 0)
    put(tile + SUM * H, times_degree(shifted(all.mean, get(tile + Q, STRIDE), bias_rows(bias), nodes), nodes), STRIDE);
#pragma unroll
  for (int n = 3; n <= ORDER; n++)
    if (moment(n) >= 0) put(tile + moment(n) * H, moment_of(all, n), STRIDE);
  Rows grads[S], level = zeros();
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
    for (int i = 0; i < 2 * F; i++) {
      received.level.v[i] += g.v[i] * degree[i / F];
      level.v[i] += g.v[i] * once[i / F];
    }
  }
  if (STD >= 0) {
    Rows g = of_aggregate(grads, T, STD), centre = bias_rows(tile + P), steep;
#pragma unroll
    for (int i = 0; i < 2 * F; i++) {
      steep.v[i] = __fdividef(g.v[i] * share[i / F], nodes.degree[i / F] > 0 ? all.deviation.v[i] : 1.0f);
      if (ORDER == 0) level.v[i] -= steep.v[i] * (all.mean.v[i] - centre.v[i]);
    }
    put(tile + STEEP, steep, STRIDE);
  }
#pragma unroll
  for (int n = 3; n <= ORDER; n++) {  // the derivative of M_n in m: (u^(n-1) - E[u^(n-1)]) (|e| + ε / s^n)^(1/n - 1) / d
    Rows curve = zeros();
    if (moment(n) >= 0) {
      Rows g = scaled(of_aggregate(grads, T, moment(n)), share), steepness = root(all, n, 1.0f / n - 1.0f, false);
#pragma unroll
      for (int i = 0; i < 2 * F; i++) {
        float factor = g.v[i] * steepness.v[i];
        level.v[i] -= factor * all.powers[n - 3].v[i];
#pragma unroll
        for (int k = 1; k < n; k++) factor /= all.unit.v[i];
        curve.v[i] = factor;
      }
    }
    put(tile + CURVES + (n - 3) * H, curve, STRIDE);
  }
  if (ORDER > 0) put(tile + CENTRE, all.mean, STRIDE);
  if (OTHERS) put(tile + LEVEL, level, STRIDE);
#pragma unroll
  for (int k = 0; k < 2; k++) {
    if ((k == 0 ? MAX : MIN) < 0) continue;
    Rows g = scaled(of_aggregate(grads, T, k == 0 ? MAX : MIN), once), each;
#pragma unroll
    for (int i = 0; i < 2 * F; i++) {
      received.extreme.v[i] += g.v[i];
      each.v[i] = g.v[i] * inverse(fmaxf(k == 0 ? all.tops.v[i] : all.lows.v[i], 1.0f));
    }
    put(tile + (k == 0 ? TOP : LOW), each, STRIDE);
  }
  return received;
}

struct Sent {  // the gradients of p and q of a node as a sender
  float p[F], q[F];
};

// Adds what one receiver, whose coefficients are in `row`, asks of its sender with p (less the tile's centre, but not
// with moments) and e = p or q.
INLINE void add_receiver(Sent &sent, const float *row, const float (&p)[F], const float (&e)[F]) {
  float level[F], steep[F], centre[F], curves[POWERS][F], top[F], low[F], is_top[F], is_low[F];
  if (OTHERS) get_n<F>(level, row + LEVEL);
  if (STD >= 0) get_n<F>(steep, row + STEEP);
  if (ORDER > 0) get_n<F>(centre, row + CENTRE);
#pragma unroll
  for (int n = 0; n < ORDER - 2; n++) get_n<F>(curves[n], row + CURVES + n * H);
  if (MAX >= 0) get_n<F>(top, row + TOP), get_n<F>(is_top, row + MAX * H);
  if (MIN >= 0) get_n<F>(low, row + LOW), get_n<F>(is_low, row + MIN * H);
#pragma unroll
  for (int c = 0; c < F; c++) {
    float *extreme = SWAP ? sent.q : sent.p, away = ORDER > 0 ? p[c] - centre[c] : p[c], sum = 0.0f;
    if (OTHERS) sent.p[c] += level[c];
#pragma unroll
    for (int n = ORDER - 3; n >= 0; n--) sum = (sum + curves[n][c]) * away;
    if (ORDER > 0) sent.p[c] += sum * away;
    if (STD >= 0) sent.p[c] += steep[c] * away;
    if (MAX >= 0) extreme[c] += is_top[c] == e[c] ? top[c] : 0.0f;
    if (MIN >= 0) extreme[c] += is_low[c] == e[c] ? low[c] : 0.0f;
  }
}

// One pass over the receivers of the thread's node i.
INLINE Sent gather_gradient(int i, const float *tile, const Nodes &nodes) {
  Sent sent = {};
  const float *own = tile + (warp_row() + 8 * i) * STRIDE + F * thread_t();
  float p[F], e[F], centre[F];
  get_n<F>(p, own + P);
  get_n<F>(e, own + (SWAP ? Q : P));
  get_n<F>(centre, tile + P + F * thread_t());
#pragma unroll
  for (int c = 0; c < F; c++) p[c] -= ORDER > 0 ? 0.0f : centre[c];
  for (int k = 0; k < nodes.degree[i]; k += 4) {
    unsigned four = nodes.list[i][k >> 2];
#pragma unroll
    for (int n = 0; n < 4; n++)
      if (k + n < nodes.degree[i]) add_receiver(sent, tile + neighbour(four, n) * STRIDE + F * thread_t(), p, e);
  }
  return sent;
}

// PNA's convolution: from the gradient of z, before LeakyReLU, what it adds to that of what it was given.
INLINE void pna_backward(Rows &down, const Rows &d_z, const Rows &given, float *tile, const float *mix, const float *T,
                         const float *bias, const float *of_rows, const float (&factors)[S][2], const Nodes &nodes,
                         Sums &sums, const float *x, const float *states, int layer) {
  mixing_backward(d_z, states + kept_at(layer, 1), tile, mix);
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
    for (int c = 0; c < F; c++) sent_p.v[F * i + c] = sent.p[c], sent_q.v[F * i + c] = sent.q[c];
  }
  __syncwarp();
  towers_back(down, get(tile + D_Y, STRIDE), T + OWN * BLOCK);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2 * F; i++) {
    message.v[i] = received.level.v[i] + received.extreme.v[i];
    (SWAP ? sent_p : sent_q).v[i] += received.extreme.v[i];
    sent_q.v[i] += received.level.v[i];
  }
  put(tile + SENT_P, sent_p, STRIDE);
  put(tile + SENT_Q, sent_q, STRIDE);
  put(tile + MESSAGE, message, STRIDE);
  put(tile + GIVEN, layer == 0 ? input_of(x, nodes.node).convolution : given_of(states, layer), STRIDE);
  towers_back(down, sent_p, T + SENDER * BLOCK);
  towers_back(down, sent_q, T + RECEIVER * BLOCK);
  __syncthreads();
  sum_projections(sums, tile);
}

// GCN's.
INLINE void gcn_backward(Rows &down, const Rows &d_z, const Rows &given, float *tile, const float *mix,
                         const Nodes &nodes, Sums &sums) {
  put(tile + X, given, STRIDE);
  Rows d_h = neighbour_sum<STRIDE>(d_z, tile + P, nodes);
  put(tile + D_Y, d_h, STRIDE);
  product(down, split(d_h), mix);
  __syncthreads();
  sum_dense(sums, tile);
}

// GAT's: the gradient of a logit is w_ij (g_i·h_j - T), T = Σ w g·h over its segment: T = g_i·out_i where that is i's, and
// T = h_j·(Σ_i w_ij g_i), known after a first pass, where it is j's (D6). `grads`: of left + right, [messages, 4].
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
    segments[i] = OVER_SENT ? sent[i] : nodes.list[i];
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

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) recurrence_backward(
    const float *x, const float *grad_out, const float *states, const int *node, const int *lists,
    const unsigned *words, const float *delta, const float *tower_weights, const float *mix_weights,
    const float *conv_bias, const float *gru_weights, const float *gru_bias, const int *routes,
    float *grad_convolutions, float *grad_gru, int V, int layers, int messages) {
  const int r = blockIdx.y;
  float *mix = (float *)shared_memory, *T = mix + HH, *bias = T + (GAT ? HH : TOWERS), *of_rows = bias + BIASES * H;
  float *tile = of_rows + S * ROWS, *G = tile + ROWS * STRIDE, *back = G + GRU * 6 * HH, *of_gru = back + GRU * 6 * HH;
  float *of_messages = of_gru + GRU * 6 * H;
  if (GRU) {
    load(G, gru_weights + r * 6 * HH, 6 * HH);
    load_transposed(back, gru_weights + r * 6 * HH, 6);
    load(of_gru, gru_bias + r * 6 * H, 6 * H);
  }
  Nodes nodes = nodes_of(node, lists, words);
  float factors[S][2];
  scaler_factors(factors, nodes, delta[r]);
  if (thread_t() == 0)
#pragma unroll
    for (int s = 0; s < S; s++)
#pragma unroll
      for (int i = 0; i < 2; i++)
        of_rows[s * ROWS + warp_row() + 8 * i] = nodes.degree[i] > 0 ? factors[s][i] : 0.0f;
  grad_out += (size_t)r * V * OUTPUTS * H + F * thread_t();
  Rows grad = GRU ? of_nodes(grad_out, nodes.node, H, 0) : zeros();
  Sums sums;
  clear(sums.dense);
  clear(sums.combined);
  clear(sums.projections);
  for (int k = layers; k < CONVOLUTIONS; k++) put_convolution(grad_convolutions, k, sums);  // of no layer
  for (int layer = layers - 1; layer >= 0; layer--) {
    if (layer == layers - 1 || layer < CONVOLUTIONS - 1) {
      const size_t k = (size_t)r * CONVOLUTIONS + (layer < CONVOLUTIONS ? layer : CONVOLUTIONS - 1);
      load(T, GAT ? mix_weights + k * HH : tower_weights + k * TOWERS, GAT ? HH : TOWERS);
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
    if (GRU) {
      down = gru_backward(grad, state, z, d_z, tile, G, back, of_gru);
    } else {
      d_z = of_nodes(grad_out, nodes.node, OUTPUTS * H, layer * H);
#pragma unroll
      for (int i = 0; i < 2 * F; i++) d_z.v[i] += grad.v[i];
    }
#pragma unroll
    for (int i = 0; i < 2 * F; i++) d_z.v[i] *= z.v[i] > 0 ? 1.0f : GAT ? z.v[i] + 1 : SLOPE;
    put(tile + D_Z, d_z, STRIDE);
    if (GCN) {
      gcn_backward(down, d_z, given, tile, mix, nodes, sums);
    } else if (GAT) {
      gat_backward(down, d_z, given, get(states + kept_at(layer, 1)), tile, mix, T, bias, nodes,
                   routes_of(routes, V, messages), of_messages, sums);
    } else {
      pna_backward(down, d_z, given, tile, mix, T, bias, of_rows, factors, nodes, sums, x, states, layer);
    }
    grad = down;
    __syncthreads();
    if (layer < CONVOLUTIONS) {
      put_convolution(grad_convolutions, layer, sums);
      clear(sums.combined);
      clear(sums.projections);
      if (role() == 3) clear(sums.dense);
    }
  }
  if (GRU) put_gru(grad_gru, sums);
}
