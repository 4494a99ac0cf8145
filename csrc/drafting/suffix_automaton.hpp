// An online suffix automaton over token ids: finds, at any moment, the longest suffix of the text that
// occurred before and what followed it most often.
//
// Facts used: A. Blumer et al., "The smallest automaton recognizing the subwords of a text" (1985). A state
// stands for the substrings that end at the same places; its link is the longest suffix of them that also
// ends elsewhere.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace verispec {

class SuffixAutomaton {
 public:
  struct Chain {
    std::vector<int32_t> tokens;
    std::vector<double> confidences;
    int32_t match = 0;  // length of the suffix that occurred before, 0 when none did
  };

  SuffixAutomaton() : slots_(64, kNone), last_(add_state(0)) {}

  // Tokens held.
  size_t size() const { return static_cast<size_t>(size_); }
  // States held; at most two for each token.
  size_t states() const { return states_.size(); }

  // Appends one token in amortised constant time.
  void append(int32_t token) {
    const int32_t position = size_++;
    const int32_t current = add_state(position + 1);
    int32_t state = last_;
    int32_t edge = kNone;
    while (state != kNone && (edge = find_edge(state, token)) == kNone) {
      add_edge(state, token, current);
      state = states_[state].link;
    }
    if (state == kNone) {
      states_[current].link = kRoot;
    } else {
      const int32_t target = edges_[edge].target;
      const bool longest = states_[target].length == states_[state].length + 1;
      states_[current].link = longest ? target : split(state, token, target);
    }
    last_ = current;
    count_ending(current, position);
  }

  // Follows, from the longest suffix of at least `min_match` tokens that occurred before, the most frequent
  // continuation (the most recent of equals), up to `limit` tokens and while each has a confidence of at
  // least `min_confidence`. A continuation that runs into the end of the text goes on as if the text were
  // repeated.
  Chain propose(size_t limit, int32_t min_match, double min_confidence) const {
    Chain chain;
    int32_t state = states_[last_].link;
    if (state == kNone || states_[state].length == 0) return chain;
    int32_t match = states_[state].length;
    chain.match = match;
    while (chain.tokens.size() < limit) {
      while (state != kRoot && states_[state].edges == kNone) {
        state = states_[state].link;
        match = states_[state].length;
      }
      if (state == kRoot || match < min_match) break;
      const Continuation best = most_frequent(state);
      const double confidence = confidence_of(best.count, best.total, match);
      if (confidence < min_confidence) break;
      chain.tokens.push_back(edges_[best.edge].token);
      chain.confidences.push_back(confidence);
      state = edges_[best.edge].target;
      ++match;
    }
    return chain;
  }

  // Probability that a continuation seen `count` times of `total` follows again after a match of `match`
  // tokens: the frequency, held back by as many unseen cases as matches of that length missed on chat and
  // copying texts of a small instruction model (one in four right after 1 token, half after 2, nine in ten
  // after 8).
  static double confidence_of(double count, double total, int32_t match) {
    const double length = match;
    return count / (total + 2.6 / (length * std::sqrt(length)));
  }

 private:
  static constexpr int32_t kNone = -1;
  static constexpr int32_t kRoot = 0;
  // Counts stop here. A link's count is at least the state's own, so a counting walk up the links ends at the
  // first full one: a text of one token repeated costs this much a token and not its length.
  static constexpr int32_t kCountLimit = 127;

  struct State {
    int32_t length;  // of the longest substring it stands for
    int32_t link;
    int32_t edges;  // head of its list of edges
    int32_t count;  // places where it ends
    int32_t end;    // the latest of them, as long as they are counted
  };
  struct Edge {
    int32_t source, token, target;
    int32_t next;
  };
  struct Continuation {
    int32_t edge = kNone;
    int32_t count = 0;
    int32_t total = 0;
  };

  int32_t add_state(int32_t length) {
    states_.push_back({length, kNone, kNone, 0, -1});
    return static_cast<int32_t>(states_.size()) - 1;
  }

  // Gives the shorter substrings of `target`, now found to end elsewhere too, a state of their own.
  int32_t split(int32_t state, int32_t token, int32_t target) {
    const int32_t clone = add_state(states_[state].length + 1);
    states_[clone].link = states_[target].link;
    states_[clone].count = states_[target].count;
    states_[clone].end = states_[target].end;
    for (int32_t edge = states_[target].edges; edge != kNone; edge = edges_[edge].next) {
      add_edge(clone, edges_[edge].token, edges_[edge].target);
    }
    states_[target].link = clone;
    for (; state != kNone; state = states_[state].link) {
      const int32_t edge = find_edge(state, token);
      if (edge == kNone || edges_[edge].target != target) break;
      edges_[edge].target = clone;
    }
    return clone;
  }

  void count_ending(int32_t state, int32_t position) {
    for (; state != kRoot && states_[state].count < kCountLimit; state = states_[state].link) {
      ++states_[state].count;
      states_[state].end = position;
    }
  }

  Continuation most_frequent(int32_t state) const {
    Continuation best;
    int32_t latest = -1;
    for (int32_t edge = states_[state].edges; edge != kNone; edge = edges_[edge].next) {
      const State& target = states_[edges_[edge].target];
      best.total += target.count;
      if (target.count > best.count || (target.count == best.count && target.end > latest)) {
        best.edge = edge;
        best.count = target.count;
        latest = target.end;
      }
    }
    return best;
  }

  size_t slot_of(int32_t state, int32_t token) const {
    const uint64_t key =
        (static_cast<uint64_t>(static_cast<uint32_t>(state)) << 32) | static_cast<uint32_t>(token);
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15ull) >> 32) & (slots_.size() - 1);
  }

  int32_t find_edge(int32_t state, int32_t token) const {
    if (states_[state].edges == kNone) return kNone;
    for (size_t slot = slot_of(state, token); slots_[slot] != kNone;
         slot = (slot + 1) & (slots_.size() - 1)) {
      const Edge& edge = edges_[slots_[slot]];
      if (edge.source == state && edge.token == token) return slots_[slot];
    }
    return kNone;
  }

  void add_edge(int32_t state, int32_t token, int32_t target) {
    edges_.push_back({state, token, target, states_[state].edges});
    const int32_t edge = static_cast<int32_t>(edges_.size()) - 1;
    states_[state].edges = edge;
    if (2 * edges_.size() > slots_.size()) {
      slots_.assign(2 * slots_.size(), kNone);
      for (int32_t old = 0; old < edge; ++old) place(old);
    }
    place(edge);
  }

  void place(int32_t edge) {
    size_t slot = slot_of(edges_[edge].source, edges_[edge].token);
    while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = edge;
  }

  std::vector<State> states_;
  std::vector<Edge> edges_;
  std::vector<int32_t> slots_;  // open addressing: (state, token) -> edge
  int32_t last_;                // the whole text's state
  int32_t size_ = 0;
};

}  // namespace verispec
