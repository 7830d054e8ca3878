// PNA's convolution, backward pass: see layer.cuh.

// Prefetches what the next layer reads, to hide the latency of memory.
INLINE void prefetch_kept(const float *states, int layer) {
  const int which = thread_t();
  if (which < 3 && (which > 0 || (STATES && layer > 0)))
#pragma unroll
    for (int i = 0; i < 2; i++) prefetch(states + kept_at(layer, which) + (warp_row() + 8 * i) * H);
}

// The mixing layer: from the gradient of z before LeakyReLU, writes that of y to D_Y.
INLINE void mixing_backward(const Rows &d_z, const float *y, float *tile, const float *mix) {
  Rows d_y = zeros();
  put(tile + Y, get(y), STRIDE);
  product(d_y, split(d_z), mix);
  put(tile + D_Y, d_y, STRIDE);
}

struct Received {  // gradients of the receiver's part of the messages: through mean and sum (level), through extremes
  Rows level, extreme;
  Rows late[2];  // two coefficients that shared memory has no room for yet (LATE)
};

INLINE int curve_at(int n) { return n == ORDER ? LAST_CURVE : CURVES + (n - 3) * H; }

// The gradient of aggregate a, from that of y.
INLINE Rows of_aggregate(const Rows (&grads)[S], const float *T, int a) {
  Rows sum = zeros();
#pragma unroll
  for (int s = 0; s < S; s++) towers_back(sum, grads[s], T + (COMBINED + s * A + a) * BLOCK);
  return sum;
}

// Offset of the gradient of softmax (k = 0) or softmin; the log of its sum of exponentials follows.
INLINE int soft_at(int k) { return SOFTS + (k == 1 && SOFTMAX >= 0 ? 2 * H : 0); }

// Divides the gradient of node i's extreme among the neighbours that attain it; e: the plane of their messages.
INLINE void share_among_ties(Rows &grad, const Rows &extreme, int i, const float *e, const Nodes &nodes) {
  float count[F] = {};
#pragma unroll 1
  for (int k = 0; k < nodes.degree[i]; k++) {
    float m[F];
    get_n<F>(m, tower_of(e, nodes.words[nodes.start[i] + k / 4], k % 4, STRIDE));
#pragma unroll
    for (int c = 0; c < F; c++) count[c] += m[c] == extreme.v[F * i + c] ? 1.0f : 0.0f;
  }
#pragma unroll
  for (int c = 0; c < F; c++) grad.v[F * i + c] *= inverse(fmaxf(count[c], 1.0f));
}

// From the gradient of y, the coefficients that a node's neighbours read. The gradient of a message m is
// level + steep c, with more for an extreme, where c = m - centre. The centre is p of the tile's first row, which is
// near the mean. With moments it is level + steep c + curves[0] c² + …, and the centre is the node's own mean.
INLINE Received coefficients(const Gathered &all, float *tile, const float *T, const float *bias,
                             const float *of_rows, const Nodes &nodes) {
  if (MEAN >= 0) put(tile + MEAN * H, all.mean, STRIDE);
  if (STD >= 0) put(tile + STD * H, all.deviation, STRIDE);
  if (MAX >= 0) put(tile + MAX * H, all.top, STRIDE);
  if (MIN >= 0) put(tile + MIN * H, all.low, STRIDE);
  if (SUM >= 0)
    put(tile + SUM * H, times_degree(shifted(all.mean, get(tile + Q, STRIDE), bias_rows(bias), nodes), nodes), STRIDE);
  Rows grads[S], level = zeros();
  Received received = {zeros(), zeros(), {}};
#pragma unroll
  for (int s = 0; s < S; s++) {
    const float *own = of_rows + s * ROWS + warp_row(), factors[2] = {own[0], own[8]};
    grads[s] = with_neighbours(scaled(get(tile + D_Y, STRIDE), factors), nodes);
  }
  float degree[2], once[2], share[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    degree[i] = nodes.degree[i];
    once[i] = nodes.degree[i] > 0 ? 1.0f : 0.0f;
    share[i] = once[i] * inverse(fmaxf(degree[i], 1.0f));
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
      if (ORDER == 0 && nodes.degree[i / F] > 0) level.v[i] -= steep.v[i] * (all.mean.v[i] - centre.v[i]);
    }
    put(tile + STEEP, steep, STRIDE);
  }
#pragma unroll
  for (int n = 3; n <= ORDER; n++) {  // ∂M_n/∂m = (u^(n-1) - E[u^(n-1)]) (|e| + ε / s^n)^(1/n - 1) / d
    Rows curve = zeros();
    if (moment(n) >= 0) {
      Rows g = scaled(of_aggregate(grads, T, moment(n)), share);
      Root found = root(all, n);
      put(tile + moment(n) * H, found.value, STRIDE);
#pragma unroll
      for (int i = 0; i < 2 * F; i++) {
        float factor = g.v[i] * found.steepness.v[i], inverse_unit = inverse(all.unit.v[i]);
        level.v[i] -= factor * all.powers[n - 3].v[i];
#pragma unroll
        for (int k = 1; k < n; k++) factor *= inverse_unit;
        curve.v[i] = factor;
      }
    }
    if (LATE && n == ORDER) received.late[0] = curve;
    else put(tile + curve_at(n), curve, STRIDE);
  }
#pragma unroll
  for (int k = 0; k < 2; k++) {  // ∂softmax/∂m = w (1 + m - softmax), w = exp(m - log): a neighbourhood's w sum to 1
    if (soft(k) < 0) continue;
    Rows g = scaled(of_aggregate(grads, T, soft(k)), once);
#pragma unroll
    for (int i = 0; i < 2 * F; i++) received.level.v[i] += g.v[i];
    put(tile + soft(k) * H, all.softs[k], STRIDE);
    put(tile + soft_at(k), g, STRIDE);
    put(tile + soft_at(k) + H, all.logs[k], STRIDE);
  }
  if (ORDER > 0 && MEAN < 0) put(tile + CENTRE, all.mean, STRIDE);
  if (LATE) received.late[1] = level;
  else if (OTHERS) put(tile + LEVEL, level, STRIDE);
#pragma unroll
  for (int k = 0; k < 2; k++) {
    if ((k == 0 ? MAX : MIN) < 0) continue;
    Rows g = scaled(of_aggregate(grads, T, k == 0 ? MAX : MIN), once);
#pragma unroll
    for (int i = 0; i < 2 * F; i++) received.extreme.v[i] += g.v[i];
#pragma unroll
    for (int i = 0; i < 2; i++)
      if (all.tied[i]) share_among_ties(g, k == 0 ? all.top : all.low, i, tile + (SWAP ? Q : P), nodes);
    put(tile + (k == 0 ? TOP : LOW), g, STRIDE);
  }
  return received;
}

struct Sent {  // gradients of a sender's p and q; `steep` is to be multiplied by its distance to the centre
  float p[F], steep[F], q[F];
};

// Adds one receiver's gradients, from its coefficients in `row`, to those of the sender with m = p and e = p or q.
// `counted`, one or zero, multiplies them all.
INLINE void add_receiver(Sent &sent, const float *row, const float (&m)[F], const float (&e)[F], float counted) {
  float level[F], steep[F], centre[F], curves[POWERS][F], top[F], low[F], is_top[F], is_low[F];
  if (OTHERS) get_n<F>(level, row + LEVEL);
  if (STD >= 0) get_n<F>(steep, row + STEEP);
  if (ORDER > 0) get_n<F>(centre, row + CENTRE);
#pragma unroll
  for (int n = 0; n < ORDER - 2; n++) get_n<F>(curves[n], row + curve_at(n + 3));
  if (MAX >= 0) get_n<F>(top, row + TOP), get_n<F>(is_top, row + MAX * H);
  if (MIN >= 0) get_n<F>(low, row + LOW), get_n<F>(is_low, row + MIN * H);
#pragma unroll
  for (int c = 0; c < F; c++) {
    float *extreme = SWAP ? sent.q : sent.p, away = ORDER > 0 ? m[c] - centre[c] : 0.0f, sum = 0.0f;
    if (OTHERS) sent.p[c] += counted * level[c];
#pragma unroll
    for (int n = ORDER - 3; n >= 0; n--) sum = (sum + curves[n][c]) * away;
    if (ORDER > 0) sent.p[c] += counted * away * (STD >= 0 ? sum + steep[c] : sum);
    else if (STD >= 0) sent.steep[c] += counted * steep[c];
    if (MAX >= 0 && is_top[c] == e[c]) extreme[c] += counted * top[c];
    if (MIN >= 0 && is_low[c] == e[c]) extreme[c] += counted * low[c];
  }
#pragma unroll
  for (int k = 0; k < 2; k++) {
    if (soft(k) < 0) continue;
    float value[F], g[F], log[F];
    get_n<F>(value, row + soft(k) * H), get_n<F>(g, row + soft_at(k)), get_n<F>(log, row + soft_at(k) + H);
#pragma unroll
    for (int c = 0; c < F; c++) {
      float sign = k == 0 ? 1.0f : -1.0f;
      sent.p[c] += counted * g[c] * expf(sign * m[c] - log[c]) * (1.0f + sign * (m[c] - value[c]));
    }
  }
}

// Gradients of the thread's node i as a sender: its receivers in pairs, so that loads of one overlap with the other's.
INLINE Sent gather_gradient(int i, const float *tile, const Nodes &nodes, unsigned word) {
  Sent sent = {};
  const float *own = tile + at_row(warp_row() + 8 * i, STRIDE);
  float m[F], e[F], centre[F];
  get_n<F>(m, own + P);
  get_n<F>(e, own + (SWAP ? Q : P));
  List list = list_of(nodes, i);
#pragma unroll 1
  for (int k = 0; k < nodes.degree[i]; k += 2) {
    unsigned two = word;
    word = k & 2 ? list.next() : word >> 16;
    add_receiver(sent, tower_of(tile, two, 0, STRIDE), m, e, 1.0f);
    add_receiver(sent, tower_of(tile, two, 1, STRIDE), m, e, k + 1 < nodes.degree[i] ? 1.0f : 0.0f);
  }
  get_n<F>(centre, tile + P + F * thread_t());
#pragma unroll
  for (int c = 0; c < F; c++)
    if (ORDER == 0 && STD >= 0 && nodes.degree[i] > 0) sent.p[c] += sent.steep[c] * (m[c] - centre[c]);
  return sent;
}

// PNA's convolution: from the gradient of z before LeakyReLU, adds the gradient of the convolution's input to `down`.
INLINE void pna_backward(Rows &down, const Rows &d_z, const Rows &given, float *tile, const float *mix, const float *T,
                         const float *bias, const float *of_rows, const Nodes &nodes, Sums &sums, const float *x,
                         const float *states, int layer) {
  mixing_backward(d_z, states + kept_at(layer, 1), tile, mix);
  Rows p = zeros(), q = zeros();
  towers(p, given, T + SENDER * BLOCK);
  towers(q, given, T + RECEIVER * BLOCK);
  put(tile + P, with_neighbours(p, nodes), STRIDE);
  put(tile + Q, with_neighbours(q, nodes), STRIDE);
  __syncthreads();
  Words words = first_words(nodes);
  sum_dense(sums, tile);
  Gathered all = gather<true, STRIDE>(tile + P, tile + Q, nodes, words);
  sync_half();
  if (layer > 0) prefetch_kept(states, layer - 1);
  Received received = coefficients(all, tile, T, bias, of_rows, nodes);
  if (LATE) sync_half();
  else __syncthreads();
  words = first_words(nodes);
  sum_combined(sums, tile, of_rows, bias);
  if (LATE) {
    sync_half();
    put(tile + LAST_CURVE, received.late[0], STRIDE);
    put(tile + LEVEL, received.late[1], STRIDE);
    __syncthreads();
  }
  Rows sent_p, sent_q, message;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    Sent sent = gather_gradient(i, tile, nodes, words.first[i]);
#pragma unroll
    for (int c = 0; c < F; c++) sent_p.v[F * i + c] = sent.p[c], sent_q.v[F * i + c] = sent.q[c];
  }
  __syncwarp();
  Rows again = layer == 0 ? input_of(x, nodes.node).convolution : given_of(states, layer);
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
  put(tile + GIVEN, again, STRIDE);
  towers_back(down, sent_p, T + SENDER * BLOCK);
  towers_back(down, sent_q, T + RECEIVER * BLOCK);
  sync_half();
  sum_projections(sums, tile);
}
