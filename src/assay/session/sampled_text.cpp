#include "assay/session/sampled_text.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/generate/generator.h"
#include "assay/model/model.h"
#include "assay/session/bos.h"

namespace assay {

namespace {

constexpr std::int64_t kDrawnTogether = 8;  // sequences

}  // namespace

SampledText sample_text(const LoadedModel& model, std::int64_t tokens, std::int64_t longest,
                        const std::function<bool()>& should_stop) {
  if (tokens < 2) throw FieldError("sample", "expected 2 tokens or more, found {}", tokens);
  SampledText sample;
  sample.length = std::min({tokens, kLongestSample, longest, model.model->spec().context});
  if (sample.length < 2) throw Error("a sample needs a context of 2 tokens or more, found {}", sample.length);
  const std::int64_t sequences = (tokens + sample.length - 1) / sample.length;
  const TokenId first = prefix_token(model);
  GenerationOptions options;
  options.max_new_tokens = sample.length - 1;
  options.sampling.temperature = 1;
  for (std::int64_t done = 0; done < sequences; done += kDrawnTogether) {
    const std::int64_t count = std::min(kDrawnTogether, sequences - done);
    // Streams of a batch are numbered from 0: another batch has another seed.
    options.sampling.seed = kSampleSeed + static_cast<std::uint64_t>(done / kDrawnTogether);
    const std::vector<std::vector<TokenId>> prompts(static_cast<std::size_t>(count), {first});
    const GenerationTrace trace =
        generate(model.model->backend(), model.model->program(), prompts, options, {}, should_stop);
    for (const SequenceTrace& sequence : trace.sequences) {
      if (std::ssize(sequence.ids) < sample.length - 1) throw Stopped("interrupted");
      sample.ids.push_back(first);
      sample.ids.insert(sample.ids.end(), sequence.ids.begin(), sequence.ids.end());
    }
  }
  sample.label = fmt::format("sample of {}: seed={} temperature=1 sequences={}x{}", model.dtype_label,
                             kSampleSeed, sequences, sample.length);
  return sample;
}

}  // namespace assay
