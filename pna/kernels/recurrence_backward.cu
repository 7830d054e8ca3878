// All layers backward, and the gradients of all weights: see recurrence.cuh.

// Where the quantities of a tile's rows lie in shared memory, in three phases of a layer.
constexpr int D_R = 0, D_U = 1 * H, D_N = 2 * H, D_B = 3 * H, D_Z = 4 * H, X = 5 * H, Z = 6 * H, Y = 7 * H;  // the GRU's
constexpr int LEVEL = 4 * H, STEEP = 5 * H, TOP = 6 * H, LOW = 7 * H;  // the aggregates are at a · H, then coefficients
constexpr int SENT_P = 4 * H, SENT_Q = 5 * H, MESSAGE = 6 * H, GIVEN = 7 * H;  // the projections'
constexpr int D_Y = 8 * H, P = 9 * H, Q = 10 * H;                              // throughout
constexpr int STRIDE = 11 * H;  // 16 words modulo 32 keep banks apart

// c[k] += Aᵀ B_k, [16, 8] each, over 64 rows of the tile, the upper half for the warps 0 … 3 and the lower for the
// others: left(row, m, i) is A's number m = g + 8i of a row, right(row, k) that of B_k in column g.
template <int N, class Left, class Right>
INLINE void outer(float (*c)[4], Left left, Right right) {
  const int begin = threadIdx.x / 128 * 64 + thread_t();
#pragma unroll 2
  for (int row = begin; row < begin + 64; row += 8) {
    float high[4], low[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      float value = left(row + (i >> 1) * 4, thread_g() + 8 * (i & 1), i & 1);
      high[i] = high_half(value);
      low[i] = value - high[i];
    }
#pragma unroll
    for (int k = 0; k < N; k++) {
      float b0 = right(row, k), b1 = right(row + 4, k);
      float h0 = high_half(b0), h1 = high_half(b1);
      mma(c[k][0], c[k][1], c[k][2], c[k][3], low, h0, h1);
      mma(c[k][0], c[k][1], c[k][2], c[k][3], high, b0 - h0, b1 - h1);
      mma(c[k][0], c[k][1], c[k][2], c[k][3], high, h0, h1);
    }
  }
}

// What a warp sums. Dense matrices: r with x and z, u likewise, n with x and b with z, the mixing layer's; and biases,
// as one more column of ones. Of its tower: U's blocks; the projections' and U's own, with their biases.
struct Sums {
  float dense[6][4], combined[S == 3 ? 2 : 1][4], projections[1][4];
};

INLINE int role() { return threadIdx.x / 32 % 4; }

INLINE void clear(float (*c)[4], int count) {
#pragma unroll
  for (int k = 0; k < count; k++)
#pragma unroll
    for (int i = 0; i < 4; i++) c[k][i] = 0.0f;
}

template <int N>
INLINE void sum_dense_of(float (*c)[4], const float *tile, int of, const int (&columns)[N]) {
  outer<N>(
      c, [=](int row, int m, int) { return tile[row * STRIDE + of + m]; },
      [=](int row, int k) { return columns[k] < 0 ? 1.0f : tile[row * STRIDE + columns[k] + thread_g()]; });
}

INLINE void sum_dense(Sums &s, const float *tile) {
  if (role() < 2) {
    const int columns[5] = {X, X + 8, Z, Z + 8, -1};
    sum_dense_of<5>(s.dense, tile, role() == 0 ? D_R : D_U, columns);
  } else {
    const int one = role() == 2 ? X : Y;
    const int ones[3] = {one, one + 8, -1}, twos[3] = {Z, Z + 8, -1};
    sum_dense_of<3>(s.dense, tile, role() == 2 ? D_N : D_Z, ones);
    if (role() == 2) sum_dense_of<3>(s.dense + 3, tile, D_B, twos);
  }
}

// Rows 4a + f of A: feature f of aggregate a; columns 4s + o of B: output o of scaler s. The receiver's part of the
// messages, which shifts mean and extremes, is added here; the factors of a node without neighbours are zero.
INLINE void sum_combined(Sums &s, const float *tile, const float *factors, const float *bias) {
  const int of_tower = 4 * role() + (thread_g() & 3);
  const float *base = tile + of_tower;
  int shift[2];
  float weight[2], shifting[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int a = thread_g() / 4 + 2 * i;
    bool extreme = a == MAX || a == MIN;
    shift[i] = extreme && SWAP ? P : Q;
    weight[i] = a < A ? 1.0f : 0.0f;
    shifting[i] = extreme || a == MEAN ? 1.0f : 0.0f;
  }
  const float of_M = bias[of_tower];
  outer<(S == 3 ? 2 : 1)>(
      s.combined,
      [=](int row, int m, int i) {
        const float *here = base + row * STRIDE;
        float value = here[(m >> 2) * H] + shifting[i] * (here[shift[i]] + of_M);
        return A == 4 || weight[i] > 0 ? value : 0.0f;
      },
      [=](int row, int k) {
        int scaler = thread_g() / 4 + 2 * k;
        return scaler < S ? factors[scaler * ROWS + row] * base[row * STRIDE + D_Y] : 0.0f;
      });
}

// Rows of A: the gradients of the sender's and the receiver's part, of y, and of the messages, four features each;
// columns of B: the four features that the tower is given, and a one.
INLINE void sum_projections(Sums &s, const float *tile) {
  const int g = thread_g(), of_tower = 4 * role() + (g & 3);
  const float *base = tile + of_tower;
  outer<1>(
      s.projections,
      [=](int row, int m, int) {
        int which = m >> 2;
        return base[row * STRIDE + (which == 0 ? SENT_P : which == 1 ? SENT_Q : which == 2 ? D_Y : MESSAGE)];
      },
      [=](int row, int) { return g < 4 ? base[row * STRIDE + GIVEN] : g == 4 ? 1.0f : 0.0f; });
}

// ---- The sums' places in memory: one for each replica, tile and half of it ----

INLINE size_t place() { return ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * 2 + threadIdx.x / 128; }

INLINE void put_matrix(float *to, const float (*c)[4]) {  // [16, 16]
#pragma unroll
  for (int k = 0; k < 2; k++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      to[(thread_g() + (i >> 1) * 8) * H + 8 * k + 2 * thread_t() + (i & 1)] = c[k][i];
}

INLINE void put_bias(float *to, const float *c) {  // the column of ones
  if (thread_t() == 0) to[thread_g()] = c[0], to[thread_g() + 8] = c[2];
}

// to: r, u and n of x; r, u and b of z; then their biases.
INLINE void put_gru(float *to, const Sums &s) {
  to += place() * (6 * HH + 6 * H);
  float *bias = to + 6 * HH;
  if (role() < 2) {
    put_matrix(to + role() * HH, s.dense);
    put_matrix(to + (3 + role()) * HH, s.dense + 2);
    put_bias(bias + role() * H, s.dense[4]);
    put_bias(bias + (3 + role()) * H, s.dense[4]);
  } else if (role() == 2) {
    put_matrix(to + 2 * HH, s.dense);
    put_matrix(to + 5 * HH, s.dense + 3);
    put_bias(bias + 2 * H, s.dense[2]);
    put_bias(bias + 5 * H, s.dense[5]);
  }
}

// to: the mixing layer; the biases of M, U and the mixing layer; the towers' matrices.
INLINE void put_convolution(float *to, const Sums &s) {
  to += place() * (HH + 3 * H + COUNT * BLOCK);
  float *bias = to + HH, *T = bias + 3 * H;
  if (role() == 3) {
    put_matrix(to, s.dense);
    put_bias(bias + 2 * H, s.dense[2]);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) {
    int m = thread_g() + (i >> 1) * 8, n = 2 * thread_t() + (i & 1), which = m / 4, f = m % 4;
    float value = s.projections[0][i];
    if (which < 3 && n < 4) T[which * BLOCK + f * H + 4 * role() + n] = value;
    if (which >= 2 && n == 4) bias[(which == 2 ? H : 0) + 4 * role() + f] = value;
#pragma unroll
    for (int k = 0; k < (S == 3 ? 2 : 1); k++) {
      int scaler = n / 4 + 2 * k;
      if (scaler < S && which < A)
        T[(COMBINED + scaler * A + which) * BLOCK + n % 4 * H + 4 * role() + f] = s.combined[k][i];
    }
  }
}

// ---- A layer backwards ----

// Asks for what the next layer reads: memory is far.
INLINE void prefetch_kept(const float *states, int layer) {
  const int which = thread_t();
  if (which < 3 && (which > 0 || layer > 0))
#pragma unroll
    for (int i = 0; i < 2; i++) prefetch(states + kept_at(layer, which) + (warp_row() + 8 * i) * H);
}

// The GRU and the mixing layer: the gradient of the new state -> of the state so far; of y at D_Y.
INLINE Rows gates_backward(const Rows &grad, const Rows &state, const float *y, const float *z, float *tile,
                           const float *G, const float *back, const float *mix, const float *bias) {
  Rows out = get(z);
  put(tile + X, state, STRIDE);
  put(tile + Z, out, STRIDE);
  put(tile + Y, get(y), STRIDE);
  Gates s = gru(split(state), split(out), G, bias);
  Rows d_r, d_u, d_n, d_b, d_z, down = zeros(), d_y = zeros();
#pragma unroll
  for (int i = 0; i < 8; i++) {
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
  Split half = split(d_r);
  product(down, half, back);
  product(d_z, half, back + 3 * HH);
  half = split(d_u);
  product(down, half, back + HH);
  product(d_z, half, back + 4 * HH);
  product(down, split(d_n), back + 2 * HH);
  product(d_z, split(d_b), back + 5 * HH);
#pragma unroll
  for (int i = 0; i < 8; i++) d_z.v[i] = out.v[i] > 0 ? d_z.v[i] : SLOPE * d_z.v[i];
  put(tile + D_Z, d_z, STRIDE);
  product(d_y, split(d_z), mix);
  put(tile + D_Y, d_y, STRIDE);
  return down;
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
// level + steep (m - centre), and more if it is an extreme; the centre, p of the tile's first row, is near the mean.
INLINE Received coefficients(const Gathered &all, float *tile, const float *T, const float *bias,
                             const float (&factors)[S][2], const Nodes &nodes) {
  if (MEAN >= 0) put(tile + MEAN * H, all.mean, STRIDE);
  if (STD >= 0) put(tile + STD * H, all.deviation, STRIDE);
  if (MAX >= 0) put(tile + MAX * H, all.top, STRIDE);
  if (MIN >= 0) put(tile + MIN * H, all.low, STRIDE);
  if (SUM >= 0)
    put(tile + SUM * H, times_degree(shifted(all.mean, get(tile + Q, STRIDE), bias_rows(bias), nodes), nodes), STRIDE);
  Rows grads[S], level = zeros(), steep;
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
    for (int i = 0; i < 8; i++) {
      received.level.v[i] += g.v[i] * degree[i / 4];
      level.v[i] += g.v[i] * once[i / 4];
    }
  }
  if (STD >= 0) {
    Rows g = of_aggregate(grads, T, STD), centre = bias_rows(tile + P);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      steep.v[i] = __fdividef(g.v[i] * share[i / 4], nodes.degree[i / 4] > 0 ? all.deviation.v[i] : 1.0f);
      level.v[i] -= steep.v[i] * (all.mean.v[i] - centre.v[i]);
    }
    put(tile + STEEP, steep, STRIDE);
  }
  if (MEANS) put(tile + LEVEL, level, STRIDE);
#pragma unroll
  for (int k = 0; k < 2; k++) {
    if ((k == 0 ? MAX : MIN) < 0) continue;
    Rows g = scaled(of_aggregate(grads, T, k == 0 ? MAX : MIN), once), each;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      received.extreme.v[i] += g.v[i];
      each.v[i] = g.v[i] * inverse(fmaxf(k == 0 ? all.tops.v[i] : all.lows.v[i], 1.0f));
    }
    put(tile + (k == 0 ? TOP : LOW), each, STRIDE);
  }
  return received;
}

struct Sent {  // the gradients of p and q of a node as a sender, four features
  float p[4], q[4];
};

// Adds what one receiver, whose coefficients are in `row`, asks of its sender with p (less the centre) and e = p or q.
INLINE void add_receiver(Sent &sent, const float *row, const float (&p)[4], const float (&e)[4]) {
  float level[4], steep[4], top[4], low[4], is_top[4], is_low[4];
  if (MEANS) set4(level, get4(row + LEVEL));
  if (STD >= 0) set4(steep, get4(row + STEEP));
  if (MAX >= 0) set4(top, get4(row + TOP)), set4(is_top, get4(row + MAX * H));
  if (MIN >= 0) set4(low, get4(row + LOW)), set4(is_low, get4(row + MIN * H));
#pragma unroll
  for (int c = 0; c < 4; c++) {
    float *extreme = SWAP ? sent.q : sent.p;
    if (MEANS) sent.p[c] += level[c];
    if (STD >= 0) sent.p[c] += steep[c] * p[c];
    if (MAX >= 0) extreme[c] += is_top[c] == e[c] ? top[c] : 0.0f;
    if (MIN >= 0) extreme[c] += is_low[c] == e[c] ? low[c] : 0.0f;
  }
}

// One pass over the receivers of the thread's node i.
INLINE Sent gather_gradient(int i, const float *tile, const Nodes &nodes) {
  Sent sent = {};
  const float *own = tile + (warp_row() + 8 * i) * STRIDE + 4 * thread_t();
  float p[4], e[4], centre[4];
  set4(p, get4(own + P));
  set4(e, get4(own + (SWAP ? Q : P)));
  set4(centre, get4(tile + P + 4 * thread_t()));
#pragma unroll
  for (int c = 0; c < 4; c++) p[c] -= centre[c];
  for (int k = 0; k < nodes.degree[i]; k += 4) {
    unsigned four = nodes.list[i][k >> 2];
#pragma unroll
    for (int n = 0; n < 4; n++)
      if (k + n < nodes.degree[i]) add_receiver(sent, tile + neighbour(four, n) * STRIDE + 4 * thread_t(), p, e);
  }
  return sent;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, RESIDENT) recurrence_backward(
    const float *x, const float *grad_out, const float *states, const int *node, const int *lists,
    const unsigned *words, const float *delta, const float *towers_1, const float *mix_1, const float *bias_1,
    const float *towers_m, const float *mix_m, const float *bias_m, const float *gru_weights, const float *gru_bias,
    float *grad_1, float *grad_m, float *grad_gru, int V, int layers) {
  const int r = blockIdx.y;
  float *G = (float *)shared_memory, *back = G + 6 * HH, *mix = back + 6 * HH, *T = mix + HH;
  float *bias = T + COUNT * BLOCK, *of_gru = bias + H, *of_rows = of_gru + 6 * H, *tile = of_rows + S * ROWS;
  load(G, gru_weights + r * 6 * HH, 6 * HH);
  load_transposed(back, gru_weights + r * 6 * HH, 6);
  load(of_gru, gru_bias + r * 6 * H, 6 * H);
  Nodes nodes = nodes_of(node, lists, words);
  float factors[S][2];
  scaler_factors(factors, nodes, delta[r]);
  if (thread_t() == 0)
#pragma unroll
    for (int s = 0; s < S; s++)
#pragma unroll
      for (int i = 0; i < 2; i++)
        of_rows[s * ROWS + warp_row() + 8 * i] = nodes.degree[i] > 0 ? factors[s][i] : 0.0f;
  Rows grad = of_nodes(grad_out + (size_t)r * V * H, nodes.node);
  Sums sums;
  clear(sums.dense, 6);
  clear(sums.combined, S == 3 ? 2 : 1);
  clear(sums.projections, 1);
  for (int layer = layers - 1; layer >= 0; layer--) {
    if (layer == layers - 1 || layer == 0) {
      const bool first = layer == 0;
      if (first) {
        put_convolution(grad_m, sums);
        clear(sums.combined, S == 3 ? 2 : 1);
        clear(sums.projections, 1);
        if (role() == 3) clear(sums.dense, 6);
      }
      load(T, (first ? towers_1 : towers_m) + (size_t)r * COUNT * BLOCK, COUNT * BLOCK);
      load_transposed(mix, (first ? mix_1 : mix_m) + r * HH, 1);
      load(bias, (first ? bias_1 : bias_m) + r * 3 * H, H);
      __syncthreads();
    }
    Rows state, given;
    if (layer == 0) {
      Input input = input_of(x, nodes.node);
      state = input.state, given = input.convolution;
    } else {
      state = given = get(states + kept_at(layer, 0));
    }
    Rows down = gates_backward(
        grad, state, states + kept_at(layer, 1), states + kept_at(layer, 2), tile, G, back, mix, of_gru);
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
      for (int c = 0; c < 4; c++) sent_p.v[4 * i + c] = sent.p[c], sent_q.v[4 * i + c] = sent.q[c];
    }
    __syncwarp();
    towers_back(down, get(tile + D_Y, STRIDE), T + OWN * BLOCK);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; i++) {
      message.v[i] = received.level.v[i] + received.extreme.v[i];
      (SWAP ? sent_p : sent_q).v[i] += received.extreme.v[i];
      sent_q.v[i] += received.level.v[i];
    }
    put(tile + SENT_P, sent_p, STRIDE);
    put(tile + SENT_Q, sent_q, STRIDE);
    put(tile + MESSAGE, message, STRIDE);
    put(tile + GIVEN, layer == 0 ? input_of(x, nodes.node).convolution : get(states + kept_at(layer, 0)), STRIDE);
    towers_back(down, sent_p, T + SENDER * BLOCK);
    towers_back(down, sent_q, T + RECEIVER * BLOCK);
    grad = down;
    __syncthreads();
    sum_projections(sums, tile);
    __syncthreads();
  }
  put_convolution(grad_1, sums);
  put_gru(grad_gru, sums);
}
