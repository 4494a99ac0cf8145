// Which tokens a request has seen, for penalties. It can be cut back to any earlier length exactly.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace verispec {

struct TokenCounts {
  int32_t prompt = 0;
  int32_t output = 0;
};

class TokenHistory {
 public:
  explicit TokenHistory(const std::vector<int32_t>& prompt) {
    for (int32_t token : prompt) ++counts_[token].prompt;
  }

  void append(const std::vector<int32_t>& tokens) {
    for (int32_t token : tokens) {
      output_.push_back(token);
      ++counts_[token].output;
    }
  }

  // Forgets all but the first `length` output tokens.
  void truncate(size_t length) {
    for (; output_.size() > length; output_.pop_back()) {
      const auto at = counts_.find(output_.back());
      if (--at->second.output == 0 && at->second.prompt == 0) counts_.erase(at);
    }
  }

  size_t output_length() const { return output_.size(); }
  const std::unordered_map<int32_t, TokenCounts>& counts() const { return counts_; }

 private:
  std::unordered_map<int32_t, TokenCounts> counts_;
  std::vector<int32_t> output_;
};

}  // namespace verispec
