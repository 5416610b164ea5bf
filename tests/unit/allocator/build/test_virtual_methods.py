"""Reading virtual methods from C++ headers."""

import pytest

from pgmo.allocator.build.virtual_methods import Parameter, UnreadableError, read_class


def methods(body, head="struct A"):
    read = read_class(f"namespace n {{\n{head} {{\n{body}\n}};\n}} // namespace n\n", "A")
    assert read is not None
    return read.methods


def types(body):
    (method,) = methods(body)
    return [each.type for each in method.parameters]


def test_reads_what_a_method_is_made_of():
    (method,) = methods("virtual std::pair<size_t, size_t> f(int device) const noexcept = 0;")
    assert method.returns == "std::pair<size_t, size_t>"
    assert method.name == "f"
    assert method.parameters == (Parameter("int", "device"),)
    assert method.qualifiers == ("const", "noexcept")


def test_overloads_and_overrides_without_the_word_virtual_are_methods():
    body = """
      virtual void record(const Ptr& ptr, CudaStream stream) = 0;
      void record(const Ptr& ptr, n::Stream stream) override {
        CudaStream inner = CudaStream(stream);
        record(ptr, inner);
      }
      bool plain(void* ptr);
      void* also_plain(size_t n) { auto p = allocate(n); return p.release(); }
    """
    read = methods(body)
    assert [each.name for each in read] == ["record", "record"]
    assert [each.parameters[1].type for each in read] == ["CudaStream", "n::Stream"]


@pytest.mark.parametrize(
    ("written", "type_", "name"),
    [
        ("size_t n", "size_t", "n"),
        ("size_t", "size_t", ""),
        ("n::DeviceIndex /*device*/", "n::DeviceIndex", ""),
        ("n::DeviceIndex // the device\n", "n::DeviceIndex", ""),
        ("const DataPtr&", "const DataPtr&", ""),
        ("DataPtr  const  &  ptr", "DataPtr const&", "ptr"),
        ("const DataPtr", "const DataPtr", ""),
        ("unsigned long", "unsigned long", ""),
        ("unsigned long long count", "unsigned long long", "count"),
        ("struct Foo", "struct Foo", ""),
        ("void* const ptr", "void* const", "ptr"),
        ("Handle&& handle", "Handle&&", "handle"),
        ("[[maybe_unused]] int device", "int", "device"),
        ("Id id = {0, 0}", "Id", "id"),
        ("Id = {0, 0}", "Id", ""),
        ("std::pair<a, b> p = std::pair<a, b>(1, 2)", "std::pair<a, b>", "p"),
        ("int n = (1 << 20)", "int", "n"),
        ("int n = (kBits >> 2)", "int", "n"),
        ('const char* text = "a, ) { b"', "const char*", "text"),
        ("char c = ','", "char", "c"),
        ("std::function<bool(cudaStream_t)> f", "std::function<bool(cudaStream_t)>", "f"),
        ("std::function<void(int, char)>", "std::function<void(int, char)>", ""),
        (
            "const std::vector<std::pair<std::string, std::string>>& /*md*/",
            "const std::vector<std::pair<std::string, std::string>>&",
            "",
        ),
    ],
)
def test_parameters(written, type_, name):
    (method,) = methods(f"virtual int f({written}) = 0;")
    assert method.parameters == (Parameter(type_, name),)
    between = methods(f"virtual int f(int a, {written}, std::map<int, int> z = {{}}) = 0;")
    assert [each.type for each in between[0].parameters] == ["int", type_, "std::map<int, int>"]


def test_no_parameters():
    assert types("virtual int f() = 0;") == []
    assert types("virtual int f(void) = 0;") == []
    assert types("virtual int f(/* nothing */) = 0;") == []


def test_bodies_fields_and_nested_types_are_passed_over():
    body = """
      A() : a_{1}, b_(2) {}
      explicit A(int x);
      virtual ~A() = default;
      template <typename T, typename U> void generic(T t, U u) { if (t < u) { t(); } }
      enum Kind { ONE, TWO };
      struct Inner { int x; std::array<int, 2> y{{1, 2}}; } inner_;
      using F = std::function<void(int)>;
      friend class Other;
      static constexpr const char* kText = "virtual { void";
      virtual std::string text() { return "}" + std::string(1, '}') + R"x(")})x"; } // }
      A& operator=(const A&) = delete;
      virtual bool
      last(
          Id /*pool*/,
          const std::unordered_set<void*>& /*live*/) {
        CHECK(false, name(), " does not. " "If { you");
      };
      int a_{1'000}, b_ = 2;
    """
    assert [each.name for each in methods(body)] == ["text", "last"]


def test_return_types_with_parentheses_and_attributes():
    (method,) = methods("[[nodiscard]] virtual inline std::function<int(void*)> f(int a) = 0;")
    assert (method.returns, method.name) == ("std::function<int(void*)>", "f")


def test_bases_without_their_namespaces():
    text = "struct API_MACRO A : public n::Base, protected Other { virtual void f(); };"
    read = read_class(text, "A")
    assert read is not None
    assert read.bases == ("Base", "Other")


def test_only_a_definition_is_the_class():
    text = """
      class A;
      // class A { virtual void comment(); };
      struct B { A* a; friend class A; void f(class A& a) {} };
      enum class A2 { X };
      template <class A> struct C { A a; };
      class AB { virtual void g(); };
    """
    assert read_class(text, "A") is None
    found = read_class(text + "class A final { public: virtual void right(); };", "A")
    assert found is not None
    assert [each.name for each in found.methods] == ["right"]


@pytest.mark.parametrize(
    "body",
    [
        "virtual void f(void (*callback)(int)) = 0;",
        "virtual void f(int values[3]) = 0;",
        "virtual void f(const char* format, ...) = 0;",
        "virtual auto f() -> int = 0;",
        "virtual void f() &;",
        "virtual void f() noexcept(false);",
        "virtual void f() final;",
        "void f() final;",
        "virtual explicit operator bool() const;",
        "virtual bool operator==(int other) const;",
        "SOME_MACRO(x) virtual void f();",
        "SOME_MACRO virtual void f();",
        "virtual SOME_MACRO(x) f();",
        "virtual void f(), g();",
        "virtual void f(std::pair<int, int p);",
        "virtual int f(int a = b < c);",
        "protected: virtual void f();",
        "private:\n virtual void f() = 0;",
        "struct Inner { virtual void f(); };",
        "void f() { struct X { virtual void g(); }; }",
        "#ifdef USE_ROCM\n virtual void f();\n#endif",
        "DECLARE_A(virtual void f())",
    ],
)
def test_unsupported_declarations_are_refused(body):
    with pytest.raises(UnreadableError):
        methods(f"virtual int before() = 0;\n{body}\nvirtual int after() = 0;")


def test_members_of_a_class_are_private_at_first():
    with pytest.raises(UnreadableError, match=r"`virtual void f\(\)` is private"):
        methods("virtual void f();", head="class A")
    assert methods("public: virtual void f(); private: int x_;", head="class A")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("struct A { virtual void f(); }; struct A { };", "the file defines A 2 times"),
        ("struct A { virtual void f();", "a brace is never closed"),
        ("struct A : virtual B { };", "its base `virtual B` is of an unknown form"),
        ("struct A : B<int> { };", "its base `B<int>` is of an unknown form"),
    ],
)
def test_classes_that_are_not_understood(text, reason):
    with pytest.raises(UnreadableError) as caught:
        read_class(text, "A")
    assert str(caught.value) == reason
