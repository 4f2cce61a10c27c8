// What a configuration answered to each item of a task.
#pragma once

#include <cstdint>
#include <vector>

namespace assay {

struct TaskAnswers {
  struct Item {
    std::int64_t line = 0;                // in the task's file
    std::vector<double> log_likelihoods;  // one for each choice, or the completion's
    bool is_right = false;                // by plain log-likelihoods
    bool is_right_norm = false;           // per character; of completions as is_right
    bool operator==(const Item&) const = default;
  };
  std::vector<Item> items;
  bool operator==(const TaskAnswers&) const = default;
};

}  // namespace assay
