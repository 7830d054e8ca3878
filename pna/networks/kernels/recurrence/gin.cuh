// GIN, equation 13: z = ReLU(W₂ n + b₂), where n is a = ReLU(W₁ t + b₁) normalised, and t = (1 + ε) x + Σ_j x_j.
//
// In training, mean and variance are taken over all nodes of the batch, which no block sees: a launch ends when each
// block has written its part of these sums, and the next launch begins by adding up the parts (SPLIT). A column is what
// is normalised together: a feature, or with D7, where graphs have H nodes, a position in the graph (POSITIONAL).

constexpr int THREADS = 32 * WARPS, SLICES = THREADS / H;
constexpr bool POSITIONAL = PNA_GIN == 2;

struct Batch {  // V nodes, in graphs of N nodes
  int V, N;
};

INLINE int tile_nodes(Batch b, int tile) {
  int full = ROWS / b.N * b.N, left = b.V - tile * full;
  return left < full ? left : full;
}

// Offsets, in `norm`, of what the normalisation needs of each column, [H] each. From NEXT on follow MU and INVERSE of
// the layer below, which is the next one backward; from SCRATCH on, room for the threads' sums.
constexpr int MU = 0, INVERSE = H, SHIFT = 2 * H, SCALE = 3 * H, TOTAL = 4 * H, PRODUCT = 5 * H, NEXT = 6 * H;
constexpr int SCRATCH = NEXT + 2 * H;

INLINE void know(float *norm, int c, float mean, float variance) {
  norm[MU + c] = mean, norm[INVERSE + c] = rsqrtf(variance + 1e-5f);
}

// Sums the pairs of(k, column) over k < count; one thread for each column then calls put(column, sums).
template <class Of, class Put>
INLINE void column_sums(float *norm, int count, Of of, Put put) {
  const int column = threadIdx.x % H, slice = threadIdx.x / H;
  Pair sum = {0.0f, 0.0f}, *scratch = (Pair *)(norm + SCRATCH);
  if (slice < SLICES)
    for (int k = slice; k < count; k += SLICES) {
      Pair more = of(k, column);
      sum.x += more.x, sum.y += more.y;
    }
  scratch[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= H) return;
#pragma unroll
  for (int s = 1; s < SLICES; s++) sum.x += scratch[s * H + column].x, sum.y += scratch[s * H + column].y;
  put(column, sum);
}

// Writes a plane whose columns are normalised together, nodes in the batch's order; D7 transposes each graph's matrix.
INLINE void put_columns(float *plane, const Rows &a, const Nodes &nodes, Batch b, int stride) {
  const int first = blockIdx.x * (ROWS / b.N * b.N);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int row = nodes.node[i] - first;
    if (nodes.node[i] < 0) continue;
    if (!POSITIONAL) put_n<F>(plane + row * stride + F * thread_t(), a.v + F * i);
#pragma unroll
    for (int c = 0; POSITIONAL && c < F; c++)
      plane[(row / H * H + F * thread_t() + c) * stride + row % H] = a.v[F * i + c];
  }
}

INLINE Rows of_columns(const float *values, const Nodes &nodes) {
  Rows rows = bias_rows(values);
#pragma unroll
  for (int i = 0; POSITIONAL && i < 2 * F; i++)
    rows.v[i] = values[nodes.node[i / F] < 0 ? 0 : nodes.node[i / F] % H];
  return rows;
}

// Writes mean and sum of squared deviations of a tile's columns; differences to its first node avoid cancellation.
INLINE void put_part(float *part, const Rows &a, float *plane, float *norm, const Nodes &nodes, Batch b, int stride) {
  const float count = tile_nodes(b, blockIdx.x);
  put_columns(plane, a, nodes, b, stride);
  __syncthreads();
  column_sums(
      norm, count,
      [=](int k, int c) {
        float away = plane[k * stride + c] - plane[c];
        return Pair{away, away * away};
      },
      [=](int c, Pair sum) {
        part[c] = plane[c] + sum.x / count;
        part[H + c] = fmaxf(sum.y - sum.x * sum.x / count, 0.0f);
      });
}

// Writes mean and 1 / √(variance + ε) to `norm`: from all tiles' parts, and then mean and variance also go to
// `statistics`; or from `statistics` if there are no parts.
INLINE void statistics_of(float *norm, float *statistics, const float *parts, Batch b) {
  if (parts)
    column_sums(
        norm, gridDim.x,
        [=](int k, int c) {
          float away = parts[2 * k * H + c] - parts[c], count = tile_nodes(b, k);
          return Pair{count * away, parts[(2 * k + 1) * H + c] + count * away * away};
        },
        [=](int c, Pair sum) {
          float away = sum.x / b.V, mean = parts[c] + away, variance = fmaxf(sum.y / b.V - away * away, 0.0f);
          know(norm, c, mean, variance);
          if (blockIdx.x == 0) statistics[c] = mean, statistics[H + c] = variance;
        });
  else if (threadIdx.x < H) know(norm, threadIdx.x, statistics[threadIdx.x], statistics[H + threadIdx.x]);
  __syncthreads();
}

INLINE Rows standardised(const Rows &a, const float *norm, const Nodes &nodes) {
  Rows mean = of_columns(norm + MU, nodes), factor = of_columns(norm + INVERSE, nodes), rows;
#pragma unroll
  for (int i = 0; i < 2 * F; i++) rows.v[i] = (a.v[i] - mean.v[i]) * factor.v[i];
  return rows;
}

INLINE Rows normalised(const Rows &standard, const float *norm, const Nodes &nodes) {
  Rows scale = of_columns(norm + SCALE, nodes), rows = of_columns(norm + SHIFT, nodes);
#pragma unroll
  for (int i = 0; i < 2 * F; i++) rows.v[i] += scale.v[i] * standard.v[i];
  return rows;
}

// a = ReLU(W₁ t + b₁), the first of the two linear layers, from x.
template <int STRIDE>
INLINE Rows first_of_two(const Rows &x, float *plane, const float *W, const float *biases, const Nodes &nodes) {
  Rows a = bias_rows(biases + H);
  product(a, split(neighbour_sum<STRIDE>(x, plane, nodes, biases[0])), W);
#pragma unroll
  for (int i = 0; i < 2 * F; i++) a.v[i] = fmaxf(a.v[i], 0.0f);
  return a;
}
