// GAT, equation 12: out_i = Σ_j w_ij h_j, a head for each thread t. A message's logit is LeakyReLU(left + right), where
// left = a₁·h and right = a₂·h of two nodes, and its weight is the softmax over a segment of messages: as described
// those that node i receives from its neighbours j, with left of i and right of j. D6 takes other pairs, and the
// softmax over the messages that node j sends.
//
// A message is a word of three rows of the tile: its other end, the nodes of left and of right. A thread keeps what
// belongs to its head of a node in two numbers of a plane: left and right; the segment's largest logit and 1 / Σ exp.

constexpr bool OVER_SENT = PNA_GAT == 2;  // D6

struct Message {
  int other, left, right;
};

INLINE Message message_of(unsigned word) {
  return {(int)(word & 255), (int)(word >> 8 & 255), (int)(word >> 16 & 255)};
}

INLINE float dot(const float *a, const float *b) {
  float sum = 0.0f;
#pragma unroll
  for (int c = 0; c < F; c++) sum += a[c] * b[c];
  return sum;
}

INLINE void put_scalars(float *plane, int i, float one, float two, int stride) {
  plane += (warp_row() + 8 * i) * stride + F * thread_t();
  plane[0] = one, plane[1] = two;
}

// h to plane p, left and right to plane q; a: a₁, then a₂, [H] each.
INLINE void put_heads(const Rows &h, float *p, float *q, const float *a, int stride) {
  put(p, h, stride);
  Rows first = bias_rows(a), second = bias_rows(a + H);
#pragma unroll
  for (int i = 0; i < 2; i++) put_scalars(q, i, dot(h.v + F * i, first.v), dot(h.v + F * i, second.v), stride);
}

INLINE float sum_of(const float *q, Message m, int stride) {  // left + right
  return q[m.left * stride + F * thread_t()] + q[m.right * stride + F * thread_t() + 1];
}

INLINE float logit(float sum) { return sum > 0 ? sum : 0.2f * sum; }

// Of the thread's two nodes, from their segments, to plane `stats`.
INLINE void put_statistics(const float *q, float *stats, const unsigned *const (&segment)[2], const Nodes &nodes,
                           int stride) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    float top = -INF, total = 0.0f;
    for (int k = 0; k < nodes.degree[i]; k++) top = fmaxf(top, logit(sum_of(q, message_of(segment[i][k]), stride)));
    for (int k = 0; k < nodes.degree[i]; k++)
      total += expf(logit(sum_of(q, message_of(segment[i][k]), stride)) - top);
    put_scalars(stats, i, top, 1.0f / fmaxf(total, 1.0f), stride);
  }
}

// The weight of a message of which `row` is the node that has its segment.
INLINE float weight_of(float sum, const float *stats, int row, int stride) {
  stats += row * stride + F * thread_t();
  return expf(logit(sum) - stats[0]) * stats[1];
}

// out of the thread's two nodes, from h (p), left and right (q) and the segments' statistics.
INLINE Rows attended(const float *p, const float *q, const float *stats, const Nodes &nodes, int stride) {
  Rows out = zeros();
#pragma unroll
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < nodes.degree[i]; k++) {
      Message m = message_of(nodes.words[nodes.start[i] + k]);
      float h[F];
      float weight = weight_of(sum_of(q, m, stride), stats, OVER_SENT ? m.other : warp_row() + 8 * i, stride);
      get_n<F>(h, p + m.other * stride + F * thread_t());
#pragma unroll
      for (int c = 0; c < F; c++) out.v[F * i + c] += weight * h[c];
    }
  return out;
}

// The other lists of a batch's messages: as their senders have them; then, node by node, the messages whose left or
// right it is, by their places in the first.
struct Routes {
  const unsigned *sent;
  const int *left_ptr, *left_place, *right_ptr, *right_place;
  int first;  // message of the tile
};

INLINE Routes routes_of(const int *routes, int V, int messages) {
  Routes r;
  r.first = routes[blockIdx.x];
  r.sent = (const unsigned *)(routes + gridDim.x);
  r.left_ptr = (const int *)r.sent + messages, r.left_place = r.left_ptr + V + 1;
  r.right_ptr = r.left_place + messages, r.right_place = r.right_ptr + V + 1;
  return r;
}
