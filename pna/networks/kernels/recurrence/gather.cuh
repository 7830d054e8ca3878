// Aggregation over neighbourhoods within a tile (section 2.1, equations 1 to 4 and 10), and the scalers.

struct Nodes {  // the thread's two nodes: index or -1, start of the list of neighbours, degree
  int node[2], start[2], degree[2];
  const unsigned *words;
};

INLINE Nodes nodes_of(const int *node, const int *lists, const unsigned *words) {
  Nodes nodes;
  nodes.words = words;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    int row = blockIdx.x * ROWS + warp_row() + 8 * i;
    nodes.node[i] = node[row];
    nodes.start[i] = lists[2 * row];
    nodes.degree[i] = lists[2 * row + 1];
  }
  return nodes;
}

// Reads the neighbours' rows, four to a word, in order. It reads ahead: one more word follows the last list.
struct List {
  const unsigned *words;
  unsigned place;  // in bytes: a 32-bit offset needs no shift to become an address

  __device__ __forceinline__ unsigned next() { return *(const unsigned *)((const char *)words + (place += 4)); }
};

INLINE List list_of(const Nodes &nodes, int i) { return {nodes.words, 4u * nodes.start[i]}; }

INLINE int neighbour(unsigned four, int n) { return four >> 8 * n & 255; }

// The thread's tower in the row of the n-th neighbour of a word; at_row says how rows are laid out.
INLINE const float *tower_of(const float *base, unsigned four, int n, int stride) {
  const bool turned = TURNED && stride == PNA_PLANES * H;
  unsigned place = neighbour(four, n) * (4 * stride) + 4 * F * thread_t();
  return (const float *)((const char *)base + (turned ? place ^ (neighbour(four, n) & 3) * (4 * F) : place));
}

struct Words {  // first word of each list, loaded long before it is needed
  unsigned first[2];
};

INLINE Words first_words(const Nodes &nodes) {
  return {{ask(nodes.words + nodes.start[0]), ask(nodes.words + nodes.start[1])}};
}

struct Gathered {  // aggregates of the senders' parts of the messages, without the receiver's
  Rows mean, deviation, top, low;
  bool tied[2];               // whether several neighbours may share an extreme
  Rows softs[2], logs[2];     // softmax and softmin; log of their sums of exponentials
  Rows unit, powers[POWERS];  // moments: s ≥ 1, so that no power overflows; E[((X - μ) / s)^n] from n = 2 on
};

// E[u^n] of u = (m - μ) / s, for n = 2 … ORDER. μ is stored as its distance `away` from the first neighbour, so that
// m - μ is exact; D12 rounds μ itself (PNA_ROUNDED).
template <int STRIDE>
INLINE void gather_powers(Gathered &all, int i, const float *p, List list, int degree, unsigned word,
                          float share, const float (&first)[F], const float (&away)[F],
                          const float (&inverse_unit)[F]) {
  float sums[POWERS][F] = {};
#pragma unroll 1
  for (int k = 0; k < degree; k += 2) {
    unsigned two = word;
    word = k & 2 ? list.next() : word >> 16;
    float m[2][F];
#pragma unroll
    for (int n = 0; n < 2; n++) get_n<F>(m[n], tower_of(p, two, n, STRIDE));
    const float second = k + 1 < degree ? 1.0f : 0.0f;
#pragma unroll
    for (int c = 0; c < 2 * F; c++) {
      const int f = c % F;
      float mean = first[f] + away[f], to_first = m[c / F][f] - first[f];
      float deviation = PNA_ROUNDED ? m[c / F][f] - mean : to_first - away[f];
      float u = deviation * inverse_unit[f] * (c < F ? 1.0f : second), power = u;
#pragma unroll
      for (int n = 0; n < POWERS; n++) sums[n][f] += power * u, power *= u;
    }
  }
#pragma unroll
  for (int n = 0; n < POWERS; n++)
#pragma unroll
    for (int c = 0; c < F; c++) all.powers[n].v[F * i + c] = sums[n][c] * share;
}

// Equation 10: Σ_j m_j exp(m_j) / Σ_k exp(m_k); softmin has the opposite sign in the exponents. The first pass finds
// the largest exponent, which the second subtracts from all, so that none overflows.
template <int STRIDE>
INLINE void gather_soft(Gathered &all, int i, const float *p, const unsigned *list, int degree) {
  float top[2][F], total[2][F] = {}, sum[2][F] = {};
#pragma unroll
  for (int c = 0; c < 2 * F; c++) top[c / F][c % F] = -INF;
#pragma unroll
  for (int pass = 0; pass < 2; pass++)
    for (int k = 0; k < degree; k++) {
      float m[F];
      get_n<F>(m, tower_of(p, list[k >> 2], k & 3, STRIDE));
#pragma unroll
      for (int c = 0; c < 2 * F; c++) {
        const int n = c / F, f = c % F;
        if (soft(n) < 0) continue;
        float exponent = n == 0 ? m[f] : -m[f];
        if (pass == 0) top[n][f] = fmaxf(top[n][f], exponent);
        else {
          float weight = expf(exponent - top[n][f]);
          total[n][f] += weight;
          sum[n][f] += weight * m[f];
        }
      }
    }
#pragma unroll
  for (int c = 0; c < 2 * F; c++) {
    const int n = c / F, f = c % F;
    all.softs[n].v[F * i + f] = degree > 0 ? sum[n][f] / total[n][f] : 0.0f;
    all.logs[n].v[F * i + f] = degree > 0 ? top[n][f] + logf(total[n][f]) : 0.0f;
  }
}

// Sums differences to the first neighbour, so that the variance does not cancel. The last word of a list is filled up
// with its first neighbour, which leaves sums and extremes unchanged; only the detection of ties must skip it.
template <bool TIES, int STRIDE>
INLINE void gather_node(Gathered &all, int i, const float *p, const float *q, List list, int degree,
                        const unsigned first_word) {
  unsigned word = first_word;
  float first[F] = {}, total[F] = {}, squares[F] = {}, far[F] = {}, top[F], low[F];
  bool tied = false;
#pragma unroll
  for (int c = 0; c < F; c++) top[c] = -INF, low[c] = INF;
  const List from_its_start = list;
  if (OTHERS && degree > 0) get_n<F>(first, tower_of(p, word, 0, STRIDE));
#pragma unroll 1
  for (int k = 0; k < degree; k += 2) {
    unsigned two = word;
    word = k & 2 ? list.next() : word >> 16;
    float m[2][F], e[2][F];
#pragma unroll
    for (int n = 0; n < 2; n++) {
      if (OTHERS || !SWAP) get_n<F>(m[n], tower_of(p, two, n, STRIDE));
      if (EXTREMES && SWAP) get_n<F>(e[n], tower_of(q, two, n, STRIDE));
    }
    const bool second = k + 1 < degree;
    bool alike = false;
#pragma unroll
    for (int c = 0; c < F; c++) {
      if (OTHERS) {
        float difference = m[0][c] - first[c], other = m[1][c] - first[c];
        total[c] += difference + other;
        squares[c] += difference * difference;
        squares[c] += other * other;
        if (ORDER > 0) far[c] = fmaxf(far[c], fmaxf(fabsf(difference), fabsf(other)));
      }
      if (EXTREMES) {
        float one = SWAP ? e[0][c] : m[0][c], two = SWAP ? e[1][c] : m[1][c];
        if (TIES) two = second ? two : one;
        float larger = fmaxf(one, two), smaller = fminf(one, two);
        if (TIES) alike |= one == two, tied |= MAX >= 0 && larger == top[c], tied |= MIN >= 0 && smaller == low[c];
        top[c] = fmaxf(top[c], larger);
        low[c] = fminf(low[c], smaller);
      }
    }
    tied |= alike & second;
  }
  all.tied[i] = tied;
  float share = inverse(fmaxf(degree, 1)), away[F], inverse_unit[F];
#pragma unroll
  for (int c = 0; c < F; c++) {
    away[c] = total[c] * share;
    all.mean.v[F * i + c] = first[c] + away[c];
    float variance = fmaxf(squares[c] * share - away[c] * away[c], 0.0f) + EPS;
    all.deviation.v[F * i + c] = degree > 0 ? square_root(variance) : 0.0f;
    all.top.v[F * i + c] = degree > 0 ? top[c] : 0.0f;
    all.low.v[F * i + c] = degree > 0 ? low[c] : 0.0f;
    if (ORDER > 0) {
      all.unit.v[F * i + c] = fmaxf(far[c], 1.0f);
      inverse_unit[c] = inverse(fmaxf(far[c], 1.0f));
    }
  }
  if (ORDER > 0) gather_powers<STRIDE>(all, i, p, from_its_start, degree, first_word, share, first, away, inverse_unit);
  if (SOFT) gather_soft<STRIDE>(all, i, p, list.words + from_its_start.place / 4, degree);
}

// Aggregates for the thread's two nodes. p and q: planes of the senders' and receivers' parts in shared memory.
template <bool TIES, int STRIDE>
INLINE Gathered gather(const float *p, const float *q, const Nodes &nodes, const Words &words) {
  Gathered all;
#pragma unroll
  for (int i = 0; i < 2; i++)
    gather_node<TIES, STRIDE>(all, i, p, q, list_of(nodes, i), nodes.degree[i], words.first[i]);
  __syncwarp();
  return all;
}

struct Root {  // a moment and its derivative
  Rows value, steepness;
};

// Equation 4: M_n = sign(e) s r, r = (|e| + ε / s^n)^(1/n), e = E[u^n]; 0 at e = 0. Its steepness is r^(1 - n).
INLINE Root root(const Gathered &all, int n) {
  Root root;
#pragma unroll
  for (int i = 0; i < 2 * F; i++) {
    float e = all.powers[n - 2].v[i], s = all.unit.v[i], inverse_unit = inverse(s), sum = EPS;
#pragma unroll
    for (int k = 0; k < n; k++) sum *= inverse_unit;
    sum += fabsf(e);
    float r = power(sum, 1.0f / n);
    root.value.v[i] = e == 0 ? 0.0f : copysignf(s * r, e);
    root.steepness.v[i] = e == 0 ? 0.0f : r * inverse(sum);
  }
  return root;
}

// The scalers' factors: 1 for the identity, then S(d, 1) and S(d, -1) of equation 6.
INLINE void scaler_factors(float (&factors)[S][2], const Nodes &nodes, float delta) {
#pragma unroll
  for (int i = 0; i < 2; i++) {
    factors[0][i] = 1.0f;
    if (S == 3) {
      factors[S / 2][i] = __fdividef(logf(nodes.degree[i] + 1.0f), delta);
      factors[S - 1][i] = __fdividef(delta, logf(fmaxf(nodes.degree[i], 1) + 1.0f));
    }
  }
}

INLINE Rows scaled(const Rows &a, const float (&factors)[2]) {
  Rows rows;
#pragma unroll
  for (int i = 0; i < 2 * F; i++) rows.v[i] = a.v[i] * factors[i / F];
  return rows;
}

INLINE Rows times_degree(const Rows &a, const Nodes &nodes) {
  float factors[2] = {(float)nodes.degree[0], (float)nodes.degree[1]};
  return scaled(a, factors);
}

// a, with zeros in the rows of nodes without neighbours: a NaN there would survive a factor of zero.
INLINE Rows with_neighbours(const Rows &a, const Nodes &nodes) {
  Rows rows;
#pragma unroll
  for (int i = 0; i < 2 * F; i++) rows.v[i] = nodes.degree[i / F] > 0 ? a.v[i] : 0.0f;
  return rows;
}

// a + b + bias for nodes with neighbours, else 0: the receiver's part of the messages shifts mean and extremes.
INLINE Rows shifted(const Rows &a, const Rows &b, const Rows &bias, const Nodes &nodes) {
  Rows rows;
#pragma unroll
  for (int i = 0; i < 2 * F; i++) rows.v[i] = nodes.degree[i / F] > 0 ? a.v[i] + (b.v[i] + bias.v[i]) : 0.0f;
  return rows;
}

// n (Σ_j n_j a_j + w n a): n = 1/√(d + 1), w = 1 in GCN; n = 1, w = 1 + ε in GIN. The map is symmetric, so it is also
// its own gradient. Writes n a to `plane`.
template <int STRIDE>
INLINE Rows neighbour_sum(const Rows &a, float *plane, const Nodes &nodes, float own = 1.0f) {
  Words words = first_words(nodes);
  float norms[2], owns[2] = {own, own};
#pragma unroll
  for (int i = 0; i < 2; i++) norms[i] = GIN ? 1.0f : rsqrtf(nodes.degree[i] + 1.0f);
  Rows total = scaled(a, norms);
  put(plane, total, STRIDE);
  total = scaled(total, owns);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; i++) {
    List list = list_of(nodes, i);
    unsigned word = words.first[i];
#pragma unroll 1
    for (int left = nodes.degree[i]; left > 0; left -= 4) {
      unsigned four = word;
      word = list.next();
#pragma unroll
      for (int n = 0; n < 4; n++) {
        float m[F], counted = n == 0 || n < left ? 1.0f : 0.0f;  // a factor: a condition would become a branch
        get_n<F>(m, tower_of(plane, four, n, STRIDE));
#pragma unroll
        for (int c = 0; c < F; c++) total.v[F * i + c] += counted * m[c];
      }
    }
  }
  __syncwarp();
  return scaled(total, norms);
}

// Offset of a tile's x before the layer (0), y (1) or z (2) in states [layers, 3, R, tiles · ROWS, H].
INLINE size_t kept_at(int layer, int which) {
  return ((((size_t)layer * 3 + which) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x) * ROWS * H;
}

// Input of the convolution of a later layer: the state before it, or the output of the layer below.
INLINE Rows given_of(const float *states, int layer) {
  return get(states + (STATES ? kept_at(layer, 0) : kept_at(layer - 1, 2)));
}
