// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A frame buffer of the firmware on a GPU of AMD, as efifb has after a boot with UEFI: a platform
 * device that owns the start of BAR 0 until a driver of the GPU asks for it.
 */

#include <linux/aperture.h>
#include <linux/ioport.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/sizes.h>

static struct platform_device *framebuffer;

static int bootfb_probe(struct platform_device *dev)
{
	struct resource *res = platform_get_resource(dev, IORESOURCE_MEM, 0);

	if (!res)
		return -EINVAL;
	/* efifb's region is busy, too. */
	if (!devm_request_mem_region(&dev->dev, res->start, resource_size(res), "bootfb"))
		return -EBUSY;
	return devm_aperture_acquire_for_platform_device(dev, res->start, resource_size(res));
}

static struct platform_driver bootfb = {
	.driver.name = "bootfb",
	.probe = bootfb_probe,
};

static struct pci_dev *find_gpu(void)
{
	struct pci_dev *pdev = NULL;

	while ((pdev = pci_get_device(PCI_VENDOR_ID_ATI, PCI_ANY_ID, pdev)))
		if (pci_resource_flags(pdev, 0) & IORESOURCE_PREFETCH)
			return pdev;
	return NULL;
}

static int __init bootfb_init(void)
{
	struct pci_dev *gpu = find_gpu();
	struct resource res = { .flags = IORESOURCE_MEM, .name = "bootfb" };
	int ret;

	if (!gpu)
		return -ENODEV;
	res.start = pci_resource_start(gpu, 0);
	res.end = res.start + SZ_8M - 1;
	pci_dev_put(gpu);
	ret = platform_driver_register(&bootfb);
	if (ret)
		return ret;
	framebuffer = platform_device_register_simple("bootfb", PLATFORM_DEVID_NONE, &res, 1);
	if (IS_ERR(framebuffer)) {
		ret = PTR_ERR(framebuffer);
		platform_driver_unregister(&bootfb);
		return ret;
	}
	/* The driver of the GPU unregisters it. */
	get_device(&framebuffer->dev);
	return 0;
}

static void __exit bootfb_exit(void)
{
	if (device_is_registered(&framebuffer->dev))
		platform_device_unregister(framebuffer);
	put_device(&framebuffer->dev);
	platform_driver_unregister(&bootfb);
}

module_init(bootfb_init);
module_exit(bootfb_exit);
MODULE_DESCRIPTION("Frame buffer of the firmware on a GPU, for tests");
MODULE_LICENSE("Dual MIT/GPL");
