// llama.cpp as a worker: its library, loaded once, behind the protocol of protocol.py. setup.sh builds it
// against the llama.cpp that setup.sh builds.
//
// usage: assay-llama-worker --threads N [--cpus 0,1]      JSON lines in and out; llama.cpp's own log on
// standard error

#include <ggml-cpu.h>
#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using Ids = std::vector<llama_token>;
using Model = llama_model;
using Context = llama_context;
using Threads = ggml_threadpool;
using RawBatch = llama_batch;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Free {
  void operator()(Model* p) const { llama_model_free(p); }
  void operator()(Context* p) const { llama_free(p); }
  void operator()(Threads* p) const { ggml_threadpool_free(p); }
};

struct Options {
  int threads = 1;
  std::vector<int> cpus;
};

// A batch of llama.cpp's, whose arrays it leaves to its caller.
class Batch {
 public:
  explicit Batch(std::size_t capacity)
      : batch_(llama_batch_init(static_cast<std::int32_t>(capacity), 0, 1)) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() { llama_batch_free(batch_); }

  void add(llama_token id, std::size_t position, std::size_t sequence, bool has_logits) {
    const std::int32_t i = batch_.n_tokens++;
    batch_.token[i] = id;
    batch_.pos[i] = static_cast<llama_pos>(position);
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = static_cast<llama_seq_id>(sequence);
    batch_.logits[i] = has_logits;
  }
  const RawBatch& get() const { return batch_; }

 private:
  RawBatch batch_;
};

class Peer {
 public:
  Peer(const std::string& file, const Options& options) : options_(options) {
    llama_model_params how = llama_model_default_params();
    // Into memory of its own: huge pages are asked for there, and not for the pages of a file.
    how.load_mode = LLAMA_LOAD_MODE_NONE;
    model_.reset(llama_model_load_from_file(file.c_str(), how));
    if (!model_) throw std::runtime_error(file + ": llama.cpp cannot load it");
    vocab_ = llama_vocab_n_tokens(llama_model_get_vocab(model_.get()));
    ggml_threadpool_params pool = ggml_threadpool_params_default(options.threads);
    for (const int cpu : options.cpus) pool.cpumask[cpu] = true;
    pool.strict_cpu =
        static_cast<std::size_t>(options.threads) <= options.cpus.size();  // a processor for each thread
    threads_.reset(ggml_threadpool_new(&pool));
    if (!threads_) throw std::runtime_error("llama.cpp cannot start its threads");
  }

  std::uint64_t weight_bytes() const { return llama_model_size(model_.get()); }

  // A fresh cache with room for `more` tokens after each prompt; logits of the last positions alone.
  Ids prefill(const std::vector<Ids>& prompts, std::size_t more) {
    make_context(prompts, more);
    return pass(prompts);
  }

  Ids step(const Ids& last) {
    std::vector<Ids> rows;
    for (const llama_token id : last) rows.push_back({id});
    return pass(rows);
  }

  // For the last position of the last pass's first sequence.
  std::vector<float> logits() const {
    const float* row = llama_get_logits_ith(context_.get(), first_output_);
    return {row, row + vocab_};
  }

  // Before the time begins: contexts are made once for each shape and then emptied.
  void make_context(const std::vector<Ids>& prompts, std::size_t more) {
    std::size_t longest = 0, total = 0;
    for (const Ids& prompt : prompts) {
      longest = std::max(longest, prompt.size());
      total += prompt.size();
    }
    const std::size_t capacity = (longest + more + kStep - 1) / kStep * kStep;
    if (context_ && sequences_ == prompts.size() && capacity_ == capacity && batch_size_ >= total) return;
    context_.reset();
    sequences_ = prompts.size(), capacity_ = capacity, batch_size_ = std::max(total, kMinBatch);
    llama_context_params how = llama_context_default_params();
    how.n_ctx = static_cast<std::uint32_t>(capacity_ * sequences_);
    how.n_batch = static_cast<std::uint32_t>(batch_size_);
    how.n_seq_max = how.n_outputs_max = static_cast<std::uint32_t>(sequences_);
    how.n_threads = how.n_threads_batch = options_.threads;
    context_.reset(llama_init_from_model(model_.get(), how));
    if (!context_) throw std::runtime_error("llama.cpp cannot make a context");
    llama_attach_threadpool(context_.get(), threads_.get(), threads_.get());
  }

  void forget() {
    llama_memory_clear(llama_get_memory(context_.get()), false);
    lengths_.assign(sequences_, 0);
  }

 private:
  static constexpr std::size_t kStep = 256;       // what llama.cpp rounds a context up to
  static constexpr std::size_t kMinBatch = 2048;  // its default

  // The likeliest id after each row of new tokens.
  Ids pass(const std::vector<Ids>& rows) {
    std::size_t total = 0;
    for (const Ids& row : rows) total += row.size();
    Batch batch(total);
    std::vector<std::int32_t> outputs;
    for (std::size_t s = 0; s < rows.size(); ++s) {
      for (std::size_t i = 0; i < rows[s].size(); ++i)
        batch.add(rows[s][i], lengths_[s] + i, s, i + 1 == rows[s].size());
      lengths_[s] += rows[s].size();
      outputs.push_back(batch.get().n_tokens - 1);
    }
    const int code = llama_decode(context_.get(), batch.get());
    if (code != 0) throw std::runtime_error("llama_decode ended with " + std::to_string(code));
    llama_synchronize(context_.get());
    first_output_ = outputs.front();
    Ids chosen;
    for (const std::int32_t i : outputs) {
      const float* row = llama_get_logits_ith(context_.get(), i);
      chosen.push_back(static_cast<llama_token>(std::max_element(row, row + vocab_) - row));
    }
    return chosen;
  }

  Options options_;
  std::unique_ptr<Model, Free> model_;
  std::unique_ptr<Threads, Free> threads_;
  std::unique_ptr<Context, Free> context_;
  std::int32_t vocab_ = 0, first_output_ = 0;
  std::size_t sequences_ = 0, capacity_ = 0, batch_size_ = 0;
  std::vector<std::size_t> lengths_;  // tokens of each sequence in the cache
};

Json decode(Peer& peer, const std::vector<Ids>& prompts, std::int64_t new_tokens) {
  if (new_tokens < 1) throw std::runtime_error("new_tokens: expected a whole number from 1");
  peer.make_context(prompts, static_cast<std::size_t>(new_tokens) + 1);
  peer.forget();
  Ids last = peer.prefill(prompts, static_cast<std::size_t>(new_tokens) + 1);
  std::vector<Ids> out;
  for (const llama_token id : last) out.push_back({id});
  std::vector<double> step_s;
  double sum = 0;
  for (std::int64_t i = 0; i < new_tokens; ++i) {
    const auto begin = Clock::now();
    last = peer.step(last);
    step_s.push_back(seconds_since(begin));
    sum += step_s.back();
    for (std::size_t s = 0; s < out.size(); ++s) out[s].push_back(last[s]);
  }
  return {{"ok", true}, {"seconds", sum}, {"step_s", step_s}, {"ids", out}};
}

Json answer(const Json& request, const Options& options, std::unique_ptr<Peer>& peer) {
  const std::string op = request.at("op");
  if (op == "quit") return {{"ok", true}};
  if (op == "load") {
    peer.reset();  // never two models in memory
    const auto begin = Clock::now();
    peer = std::make_unique<Peer>(request.at("model").get<std::string>(), options);
    return {{"ok", true},
            {"label", std::string("llama.cpp ") + llama_version()},
            {"kernels", ""},
            {"threads", options.threads},
            {"weight_bytes", peer->weight_bytes()},
            {"load_s", seconds_since(begin)}};
  }
  if (op != "prefill" && op != "decode" && op != "logits")
    throw std::runtime_error("unknown op '" + op + "'");
  if (!peer) throw std::runtime_error("no model is loaded");
  const Json& ids = request.at("ids");
  const auto prompts = op == "logits" ? std::vector<Ids>{ids.get<Ids>()} : ids.get<std::vector<Ids>>();
  if (prompts.empty() ||
      std::any_of(prompts.begin(), prompts.end(), [](const Ids& row) { return row.empty(); }))
    throw std::runtime_error("ids: expected sequences of at least one id");
  if (op == "decode") return decode(*peer, prompts, request.at("new_tokens"));
  peer->make_context(prompts, 1);
  const auto begin = Clock::now();
  peer->forget();
  const Ids next = peer->prefill(prompts, 1);
  if (op == "prefill") return {{"ok", true}, {"seconds", seconds_since(begin)}, {"next", next}};
  return {{"ok", true}, {"logits", peer->logits()}};
}

Options read_options(int count, char** words) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i], value = words[i + 1];
    if (name == "--threads") {
      options.threads = std::stoi(value);
    } else if (name == "--cpus") {
      std::istringstream list(value);
      for (std::string cpu; std::getline(list, cpu, ',');) options.cpus.push_back(std::stoi(cpu));
    } else {
      throw std::runtime_error("unknown argument '" + name + "'");
    }
  }
  return options;
}

}  // namespace

int main(int count, char** words) {
  try {
    const Options options = read_options(count, words);
    llama_backend_init();
    std::unique_ptr<Peer> peer;
    for (std::string line; std::getline(std::cin, line);) {
      Json reply, request;
      try {
        request = Json::parse(line);
        reply = answer(request, options, peer);
      } catch (const std::exception& error) {
        reply = {{"ok", false}, {"error", error.what()}};
      }
      std::cout << reply.dump() << std::endl;
      if (reply.at("ok") == true && request.at("op") == "quit") break;
    }
  } catch (const std::exception& error) {
    std::cerr << "assay-llama-worker: " << error.what() << '\n';
    return 1;
  }
}
