/* Makes the block of stored_block.c operations of MLX's, beside the product, and a Python module.

   A block's weights come as the layers themselves, which are dicts of their arrays: what a layer
   holds when the operation is written down is the node's input, and what it reads. */

#include "stored_weights.cpp"

#include <array>
#include <optional>

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

namespace {

// --- what stored_block.c takes ------------------------------------------------------------------
struct Weight {
    int columns, depth, bits, group, narrow;
    const std::uint16_t* codes;
    const void *scales, *minima;
};
struct Before {
    int rows, width, half, table;
    float eps;
    const float *x, *norm, *cos, *sin;
    Weight w[3];
    float* y[3];
};
struct After {
    int rows, width;
    float eps;
    const float *x, *read, *norm;
    Weight w[4];
    float* y;
};
struct Reading {
    int batch, heads, kv_heads, queries, keys, width, causal;
    float scale;
    const float *q, *k, *v;
    std::size_t q_at[3], k_at[3], v_at[3];
    const std::uint8_t* mask;
    std::size_t mask_at[3];
    float* y;
};
template <typename T>
struct Work {  // a function, and how much room it needs
    void (*run)(const T*, void*) = nullptr;
    std::size_t (*space)(const T*) = nullptr;
    void operator()(const T& told) const {
        auto room = std::make_unique_for_overwrite<char[]>(space(&told));
        run(&told, room.get());
    }
};
Work<Before> before_work;
Work<After> after_work;
void (*read_work)(const Reading*) = nullptr;

// --- arrays -------------------------------------------------------------------------------------
// Return numbers (rows, heads, tokens, D), and how far apart two of each are.
const float* apart(Inputs& in, int i, std::size_t (&at)[3]) {
    const mx::array& a = in.held[i];
    bool lies = a.strides(3) == 1;
    std::size_t size = a.shape(3);
    for (int axis = 2; axis >= 0; size *= a.shape(axis--)) at[axis] = lies ? a.strides(axis) : size;
    return lies ? a.data<float>() : in.numbers(i);
}

Weight weight(Inputs& in, int i, Form form, int depth) {
    auto [columns, bits, group] = form;
    return {columns, depth, bits, group, in.is_narrow(i + 1),
            in.codes(i), in.either(i + 1), in.either(i + 2)};
}

// Put a layer's arrays behind others, and return what they are.
Form take(const nb::dict& layer, int depth, std::vector<mx::array>& inputs) {
    auto form = nb::cast<nb::tuple>(layer["form"]);
    Form found{nb::cast<int>(form[0]), nb::cast<int>(form[1]), nb::cast<int>(form[2])};
    inputs.push_back(nb::cast<mx::array&>(layer["codes"]));
    mx::array scales = nb::cast<mx::array&>(layer["scales"]);
    mx::array minima = nb::cast<mx::array&>(layer["minima"]);
    bool narrow = scales.dtype() == mx::float16 && minima.dtype() == mx::float16;
    for (auto* each : {&scales, &minima})
        inputs.push_back(narrow ? *each : mx::astype(*each, mx::float32));
    auto* last = &inputs.back();
    check_weight(last[-2], last[-1], last[0], found, depth);
    return found;
}

float* made(mx::array& out) {
    out.set_data(mx::allocator::malloc(out.nbytes()));
    return out.data<float>();
}

// --- the operations -----------------------------------------------------------------------------
class Node : public mx::Primitive {  // on a CPU, and without gradients
   public:
    using mx::Primitive::Primitive;
    void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
        throw std::runtime_error("stored weights are multiplied on a CPU");
    }
    std::vector<mx::array> vjp(const std::vector<mx::array>&, const std::vector<mx::array>&,
                               const std::vector<int>&, const std::vector<mx::array>&) override {
        throw std::runtime_error(NO_GRADIENT);
    }
};

class BlockBefore : public Node {
   public:
    BlockBefore(mx::Stream stream, float eps, std::array<Form, 3> forms)
        : Node(stream), eps(eps), forms(forms) {}

    void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& out) override {
        std::array<float*, 3> y{made(out[0]), made(out[1]), made(out[2])};
        auto in = std::make_shared<Inputs>(inputs);
        mx::cpu::get_command_encoder(stream()).dispatch([in, y, eps = eps, forms = forms] {
            const mx::array &x = in->held[0], &cos = in->held[2];
            int width = x.shape(-1), half = cos.shape(-1);
            Before told{static_cast<int>(x.size() / width), width, half,
                        static_cast<int>(cos.size() / half), eps, in->numbers(0), in->numbers(1),
                        in->numbers(2), in->numbers(3), {}, {y[0], y[1], y[2]}};
            for (int i = 0; i < 3; i++) told.w[i] = weight(*in, 4 + 3 * i, forms[i], width);
            before_work(told);
        });
    }
    bool is_equivalent(const mx::Primitive& other) const override {
        auto& o = static_cast<const BlockBefore&>(other);
        return eps == o.eps && forms == o.forms;
    }
    const char* name() const override { return "BlockBefore"; }

   private:
    float eps;
    std::array<Form, 3> forms;
};

class BlockAfter : public Node {
   public:
    BlockAfter(mx::Stream stream, float eps, std::array<Form, 4> forms)
        : Node(stream), eps(eps), forms(forms) {}

    void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& out) override {
        float* y = made(out[0]);
        auto in = std::make_shared<Inputs>(inputs);
        mx::cpu::get_command_encoder(stream()).dispatch([in, y, eps = eps, forms = forms] {
            const mx::array &x = in->held[0], &read = in->held[1];
            int width = x.shape(-1), rows = static_cast<int>(x.size() / width);
            After told{rows, width, eps, in->numbers(0), in->numbers(1), in->numbers(2), {}, y};
            int inner = forms[1].columns, heads = static_cast<int>(read.size() / rows);
            std::array<int, 4> depths{heads, width, width, inner};
            for (int i = 0; i < 4; i++) told.w[i] = weight(*in, 3 + 3 * i, forms[i], depths[i]);
            after_work(told);
        });
    }
    bool is_equivalent(const mx::Primitive& other) const override {
        auto& o = static_cast<const BlockAfter&>(other);
        return eps == o.eps && forms == o.forms;
    }
    const char* name() const override { return "BlockAfter"; }

   private:
    float eps;
    std::array<Form, 4> forms;
};

// Keys go into the cache before: with a second result it would be a copy of the whole cache, see
// findings/two_results_take_no_input.sh.
class BlockRead : public Node {
   public:
    BlockRead(mx::Stream stream, float scale, bool causal)
        : Node(stream), scale(scale), causal(causal) {}

    void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& out) override {
        auto in = std::make_shared<Inputs>(inputs);
        auto work = [in, y = made(out[0]), scale = scale, causal = causal] {
            const mx::array &q = in->held[0], &k = in->held[1];
            Reading told{q.shape(0), q.shape(1), k.shape(1), q.shape(2), k.shape(2), q.shape(3),
                         causal, scale, nullptr, nullptr, nullptr, {}, {}, {}, nullptr, {}, y};
            told.q = apart(*in, 0, told.q_at);
            told.k = apart(*in, 1, told.k_at);
            told.v = apart(*in, 2, told.v_at);
            if (in->held.size() > 3) {
                const mx::array& mask = in->held[3];
                told.mask = mask.data<std::uint8_t>();
                for (int i = 0; i < 3; i++) told.mask_at[i] = mask.strides(i ? i + 1 : 0);
            }
            read_work(&told);
        };
        mx::cpu::get_command_encoder(stream()).dispatch(std::move(work));
    }
    bool is_equivalent(const mx::Primitive& other) const override {
        auto& o = static_cast<const BlockRead&>(other);
        return scale == o.scale && causal == o.causal;
    }
    const char* name() const override { return "BlockRead"; }

   private:
    float scale;
    bool causal;
};

// --- as Python sees them ------------------------------------------------------------------------
std::vector<mx::array> before(const mx::array& x, const mx::array& norm, const mx::array& cos,
                              const mx::array& sin, const nb::dict& q, const nb::dict& k,
                              const nb::dict& v, float eps) {
    require(x.ndim() == 3 && x.dtype() == mx::float32, "x must be float32, (B, T, width)");
    int batch = x.shape(0), length = x.shape(1), width = x.shape(2), half = cos.shape(-1);
    require(norm.dtype() == mx::float32 && norm.size() == static_cast<std::size_t>(width),
            "norm must be float32, (width,)");
    require(half % 8 == 0 && cos.dtype() == mx::float32 && sin.dtype() == mx::float32 &&
                sin.size() == 2 * cos.size() &&
                static_cast<std::size_t>(batch) * length % (cos.size() / half) == 0,
            "cos and sin must be a rotation's, float32, of heads of 16, 32, ... numbers");
    std::vector<mx::array> inputs{x, norm, cos, sin};
    inputs.reserve(13);
    std::array<Form, 3> forms;
    for (int i = 0; auto* layer : {&q, &k, &v}) forms[i++] = take(*layer, width, inputs);
    std::vector<mx::Shape> shapes;
    for (auto& form : forms) {
        require(form.columns % (2 * half) == 0, "columns must be whole heads");
        int heads = form.columns / (2 * half);
        shapes.push_back(length == 1 ? mx::Shape{batch, heads, 1, 2 * half}
                                     : mx::Shape{batch, length, heads, 2 * half});
    }
    auto node = std::make_shared<BlockBefore>(mx::to_stream({}), eps, forms);
    auto found = mx::array::make_arrays(
        shapes, std::vector<mx::Dtype>(3, mx::float32), node, inputs);
    if (length > 1)
        for (auto& each : found) each = mx::swapaxes(each, 1, 2);
    return found;
}

mx::array after(const mx::array& x, const mx::array& read, const mx::array& norm,
                const nb::dict& output, const nb::dict& gate, const nb::dict& up,
                const nb::dict& down, float eps) {
    require(x.ndim() == 3 && x.dtype() == mx::float32, "x must be float32, (B, T, width)");
    require(read.ndim() == 4 && read.dtype() == mx::float32, "read must be float32, (B, H, T, D)");
    int width = x.shape(2);
    require(read.shape(0) == x.shape(0) && read.shape(2) == x.shape(1),
            "read must be of the tokens of x");
    require(norm.dtype() == mx::float32 && norm.size() == static_cast<std::size_t>(width),
            "norm must be float32, (width,)");
    // by tokens, as the product reads it: in one row of memory already where there is one token
    mx::array by_tokens = x.shape(1) > 1 ? mx::swapaxes(read, 1, 2) : read;
    std::vector<mx::array> inputs{x, by_tokens, norm};
    inputs.reserve(15);
    Form first = take(output, read.shape(1) * read.shape(3), inputs);
    Form second = take(gate, width, inputs), third = take(up, width, inputs);
    Form last = take(down, second.columns, inputs);
    require(first.columns == width && last.columns == width && second.columns == third.columns,
            "the layers of a block must fit each other");
    std::array<Form, 4> forms{first, second, third, last};
    auto node = std::make_shared<BlockAfter>(mx::to_stream({}), eps, forms);
    return mx::array(x.shape(), mx::float32, node, inputs);
}

mx::array read_keys(const mx::array& q, const mx::array& k, const mx::array& v, float scale,
                    bool causal, const std::optional<mx::array>& mask) {
    for (auto* each : {&q, &k, &v})
        require(each->ndim() == 4 && each->dtype() == mx::float32 &&
                    each->shape(0) == q.shape(0) && each->shape(3) == q.shape(3),
                "q, k and v must be float32, (B, heads, tokens, D)");
    require(k.shape() == v.shape() && q.shape(1) % k.shape(1) == 0,
            "k and v must have one shape, and a divisor of q's heads");
    require(q.shape(3) % 8 == 0, "D must be a multiple of 8");
    std::vector<mx::array> inputs{q, k, v};
    if (mask) {
        require(mask->dtype() == mx::bool_, "mask must be of bools");
        inputs.push_back(mx::broadcast_to(*mask, {q.shape(0), 1, q.shape(2), k.shape(2)}));
    }
    auto node = std::make_shared<BlockRead>(mx::to_stream({}), scale, causal);
    return mx::array::make_arrays({q.shape()}, {mx::float32}, node, inputs)[0];
}

template <typename T>
void set(T& function, std::uintptr_t at) {
    function = reinterpret_cast<T>(at);
}

}  // namespace

NB_MODULE(lablib_stored_weights, m) {
    nb::module_::import_("mlx.core");
    m.def("start", [](const std::array<std::uintptr_t, 7>& at) {
        set(multiply, at[0]), set(space, at[1]);
        set(before_work.run, at[2]), set(before_work.space, at[3]);
        set(after_work.run, at[4]), set(after_work.space, at[5]);
        set(read_work, at[6]);
    });
    m.def("product", &product);
    m.def("before", &before);
    m.def("after", &after);
    m.def("read", &read_keys, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
          nb::arg().none() = nb::none());
}
