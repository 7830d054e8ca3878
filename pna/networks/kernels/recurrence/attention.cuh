// GAT, equation 12: out_i = Σ_j w_ij h_j, one head for each thread t. The logit of a message is
// LeakyReLU(left + right), with left = a₁·h of one node and right = a₂·h of another. Its weight is the softmax of the
// logit over a segment of messages. As described, the segment is what node i receives from its neighbours j, with left
// of i and right of j. D6 pairs other nodes, and its segment is what node j sends.
//
// A message is a word that names three rows of the tile: its other end, and the nodes of left and of right. For each
// node, a thread stores two numbers of its head in a plane: left and right, or the largest logit and 1 / Σ exp of the
// segment.

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

// Writes h to plane p, left and right to plane q. a: a₁ [H], then a₂ [H].
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

// Writes the largest logit and 1 / Σ exp of the segments of the thread's two nodes to plane `stats`.
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

// Weight of a message with logit LeakyReLU(sum), whose segment belongs to the node in `row`.
INLINE float weight_of(float sum, const float *stats, int row, int stride) {
  stats += row * stride + F * thread_t();
  return expf(logit(sum) - stats[0]) * stats[1];
}

// `out` of the thread's two nodes, from h (p), left and right (q) and the segments' statistics.
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

// Further lists of a batch's messages: by sender (`sent`); and for each node, the positions in `sent` of the messages
// whose left, or right, it is.
struct Routes {
  const unsigned *sent;
  const int *left_ptr, *left_place, *right_ptr, *right_place;
  int first;  // position of the tile's first message
};

INLINE Routes routes_of(const int *routes, int V, int messages) {
  Routes r;
  r.first = routes[blockIdx.x];
  r.sent = (const unsigned *)(routes + gridDim.x);
  r.left_ptr = (const int *)r.sent + messages, r.left_place = r.left_ptr + V + 1;
  r.right_ptr = r.left_place + messages, r.right_place = r.right_ptr + V + 1;
  return r;
}
