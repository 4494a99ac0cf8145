// Which of two kernels that give the same bits is the faster one here and now.
//
// How fast a core multiplies tiles depends on what else its socket does: 0.6 times the time of AVX-512, or
// 1.1 times, from one second to the next. So both are timed as they work, each thread for itself, and the
// slower one gets a few calls in a thousand to show that it has become the faster.
#pragma once

#include <cstdint>

namespace verispec::VERISPEC_ISA_NS {

class KernelPace {
 public:
  // Whether the next call is for the first kernel. In a trial it is for the slower one, for several calls in
  // a row because a tile unit that has rested begins slowly.
  bool next_is_first() {
    const bool trial = calls_++ % kPeriod < kTrialCalls;
    return (first_ * kAdvantage <= second_) != trial;
  }

  // What a call took, in any unit, for each unit of its work.
  void record(bool first, float ticks) {
    float& pace = first ? first_ : second_;
    const float bounded = ticks < 2 * pace ? ticks : 2 * pace;  // an interruption is no slowness
    pace = pace == 0 ? ticks : pace + (bounded - pace) / 4;
  }

 private:
  static constexpr uint32_t kPeriod = 1536;
  static constexpr uint32_t kTrialCalls = 4;
  static constexpr float kAdvantage = 1.15f;  // less is not worth changing for

  float first_ = 0;  // 0: not yet known
  float second_ = 0;
  uint32_t calls_ = kTrialCalls;  // both are timed at once; then the faster one works until the next trial
};

}  // namespace verispec::VERISPEC_ISA_NS
