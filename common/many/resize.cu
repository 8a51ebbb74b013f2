// out[n, y, x, c] = the pixel of the resized and cropped picture n, a thread per pixel of three channels.
//
// A weighted mean of the input under a triangle, first along the rows, then down the columns, each rounded to a byte, as
// Pillow's Resampling.BILINEAR has it: where a picture is made smaller, the triangle is as wide as two of its pixels.
//
// Layout  pixels: all pictures one after the other, (3, H, W) each, H and W of its own; out (N, H, W, 3).
// places  per picture its first byte in pixels, its height and width, and the first row and column of its crop.

#define THREADS 128   // of a block
#define TAPS 16       // so many weights of a row are kept: enough down to 1/7 of the size
#define PRECISION 22  // Pillow's: weights are integers, their sum is 2**22

struct Taps {  // of one output pixel along one axis
    double centre, scale, width;  // in input pixels; scale: of the triangle
    int first, count;
};

__device__ Taps taps(int out, int input, int resized) {
    Taps t;
    double ratio = (double)input / resized;
    t.scale = ratio > 1.0 ? ratio : 1.0;
    t.centre = (out + 0.5) * ratio;
    int first = (int)(t.centre - t.scale + 0.5), last = (int)(t.centre + t.scale + 0.5);
    t.first = first > 0 ? first : 0;
    t.count = (last < input ? last : input) - t.first;
    t.width = 0.0;
    for (int i = 0; i < t.count; i++) {
        double distance = (t.first + i - t.centre + 0.5) / t.scale;
        t.width += fmax(0.0, 1.0 - fabs(distance));
    }
    return t;
}

__device__ int weight(const Taps& t, int i) {
    double distance = (t.first + i - t.centre + 0.5) / t.scale;
    return (int)(0.5 + fmax(0.0, 1.0 - fabs(distance)) / t.width * (1 << PRECISION));
}

__device__ int rounded(int sum) {
    int value = sum >> PRECISION;
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

extern "C" __global__ void resize(const unsigned char* __restrict__ pixels, const long long* __restrict__ places,
                                  unsigned char* __restrict__ out, int count, int height, int width, int shorter) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;  // range [0, count), count = N·H·W
    if (i >= count) return;
    unsigned n = i / (height * width), y = i / width % height, x = i % width;
    const long long* place = places + 5 * n;
    long long start = place[0];
    if (start < 0) return;  // there is no such picture
    int in_height = (int)place[1], in_width = (int)place[2];
    int side = in_height < in_width ? in_height : in_width;
    Taps down = taps(y + (int)place[3], in_height, (int)((long long)shorter * in_height / side));
    Taps along = taps(x + (int)place[4], in_width, (int)((long long)shorter * in_width / side));
    __shared__ int kept[TAPS][THREADS];  // weights along the row, each thread's own: the same for all rows and channels
    int most = along.count < TAPS ? along.count : TAPS;
    for (int k = 0; k < most; k++) kept[k][threadIdx.x] = weight(along, k);
    int sums[3] = {1 << (PRECISION - 1), 1 << (PRECISION - 1), 1 << (PRECISION - 1)};
    for (int j = 0; j < down.count; j++) {
        int across[3] = {1 << (PRECISION - 1), 1 << (PRECISION - 1), 1 << (PRECISION - 1)};
        const unsigned char* row = pixels + start + (long long)(down.first + j) * in_width + along.first;
        for (int k = 0; k < along.count; k++) {
            int w = k < TAPS ? kept[k][threadIdx.x] : weight(along, k);
            for (int c = 0; c < 3; c++) across[c] += row[(long long)c * in_height * in_width + k] * w;
        }
        int w = weight(down, j);
        for (int c = 0; c < 3; c++) sums[c] += rounded(across[c]) * w;
    }
    for (int c = 0; c < 3; c++) out[3ull * i + c] = (unsigned char)rounded(sums[c]);
}
