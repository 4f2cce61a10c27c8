// Processes that score something once: which are started before the first of them is used, and which are
// loaded.
#include <gtest/gtest.h>

#include "assay/studies/session_result.h"
#include "support/fake_starts.h"

namespace assay {
namespace {

using test::config_of_threads;

class PreparedProcesses : public testing::Test {
 protected:
  PreparedProcesses() { context_.sessions = sessions_.get(); }
  std::vector<std::string> prepare(const std::vector<int>& threads) {
    std::vector<RunConfig> configurations;
    for (const int n : threads) configurations.push_back(config_of_threads(n));
    starts_.log.clear();
    prepare_processes(context_, configurations, "losses", [](const RunConfig& c) { return c.key(); });
    return starts_.log;
  }
  void load_once(int threads) {
    sessions_->of(config_of_threads(threads));
    sessions_->drop(config_of_threads(threads));
  }
  test::Starts starts_;
  std::unique_ptr<Sessions> sessions_ = test::logged_sessions(starts_);
  ExperimentContext context_;
};

using Log = std::vector<std::string>;

TEST_F(PreparedProcesses, LoadSideBySideWhereTheirLoadWasTimedBefore) {
  load_once(1);
  load_once(3);
  EXPECT_EQ(prepare({1, 2, 3}), (Log{"start 1", "prepare 1", "start 2", "prepare 2", "wait 1", "start 3",
                                     "prepare 3", "load 1", "load 3", "finish 1", "finish 3", "wait 2"}));
  EXPECT_TRUE(sessions_->is_live(config_of_threads(3)));
  EXPECT_FALSE(sessions_->is_live(config_of_threads(2))) << "how long its load takes is a figure";
}

TEST_F(PreparedProcesses, OfACpuAreLeftToTheirTurn) {
  load_once(1);
  load_once(2);
  starts_.is_worth_preparing = false;
  EXPECT_EQ(prepare({1, 2}), Log{});
}

}  // namespace
}  // namespace assay
